import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.AsyncCallback.AddCallback;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * The load driver of Apache BookKeeper: one process that stays warm.
 *
 * <p>Arguments: the client's property file, and the file of payload bytes. Each line on standard
 * input is a command, {@code verb name=value ...}; each answer is one line of JSON behind the mark
 * {@code @@} on standard output, because libraries print there, too. our_driver.py obeys the same
 * commands. Latencies are in microseconds; at a rate they count from the intended time.
 */
public final class Driver {
    private static final byte[] PASSWORD = "passwd".getBytes(StandardCharsets.UTF_8);
    private static final long TICK_NS = 1_000_000;
    private static final long QUIET_MS = 20;
    private static final int READ_ENTRIES = 1_000;
    private static final long READ_BYTES = 4 << 20;
    private static final int BATCH_BYTES = 65_536;
    private static final int ENTRIES_OUTSTANDING_MAX = 8_000;

    private final ClientConfiguration configuration;
    private final BookKeeper client;
    private final boolean batchReads;
    private final byte[] bytes;
    private final List<LedgerHandle> ledgers = new ArrayList<>();
    private byte[] payload = new byte[0];
    private int recordsAnEntry = 1;

    private Driver(ClientConfiguration configuration, byte[] bytes) throws Exception {
        this.configuration = configuration;
        this.client = new BookKeeper(configuration);
        this.batchReads = configuration.getUseV2WireProtocol();
        this.bytes = bytes;
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.loadConf(Path.of(arguments[0]).toUri().toURL());
        Driver driver = new Driver(configuration, Files.readAllBytes(Path.of(arguments[1])));
        say("{\"ready\": true}");
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().trim().split(" +");
            if (words[0].equals("end")) {
                break;
            }
            Map<String, String> given = new HashMap<>();
            for (int at = 1; at < words.length; at++) {
                String[] pair = words[at].split("=", 2);
                given.put(pair[0], pair[1]);
            }
            try {
                say(driver.obey(words[0], new Given(given)));
            } catch (Exception error) {
                say("{\"error\": \"" + quoted(words[0] + ": " + error) + "\"}");
            }
        }
        System.exit(0);
    }

    /** The values of one command. */
    private record Given(Map<String, String> values) {
        long number(String name) {
            String text = values.get(name);
            if (text == null) {
                throw new IllegalArgumentException("the command lacks " + name + "=");
            }
            return Long.parseLong(text);
        }

        long number(String name, long otherwise) {
            return values.containsKey(name) ? number(name) : otherwise;
        }

        String text(String name, String otherwise) {
            return values.getOrDefault(name, otherwise);
        }
    }

    private static void say(String line) {
        System.out.println("@@" + line);
        System.out.flush();
    }

    private static String quoted(String text) {
        return text.replace("\\", "\\\\").replace("\"", "'").replace("\n", " ").replace("\t", " ");
    }

    private String obey(String verb, Given given) throws Exception {
        switch (verb) {
            case "begin": return begin(given);
            case "append": return append(given);
            case "one_at_a_time": return oneAtATime(given);
            case "at_rate": return atRate(given);
            case "keep": return keep();
            case "finish": return finish();
            case "catch_up": return catchUp();
            case "random_reads": return randomReads(given);
            case "tail": return tail(given);
            case "create_close": return createClose(given);
            case "recover": return recover(given);
            case "write_for_ever": return writeForEver(given);
            case "sustain": return sustain(given);
            default: throw new IllegalArgumentException("no such command");
        }
    }

    // -- ledgers --

    private LedgerHandle create(Given given) throws Exception {
        return client.createLedger((int) given.number("ensemble", 3), (int) given.number("write", 3),
            (int) given.number("ack", 2), DigestType.CRC32C, PASSWORD);
    }

    /** Make ledgers with one entry each, so that each is open at its bookies. */
    private String begin(Given given) throws Exception {
        ledgers.clear();
        boolean batches = given.text("by", "append").equals("batches");
        int size = (int) given.number("size");
        recordsAnEntry = batches ? Math.max(1, BATCH_BYTES / size) : 1;
        payload = Arrays.copyOf(bytes, size);
        for (int at = 0; at < given.number("ledgers", 1); at++) {
            LedgerHandle ledger = create(given);
            ledger.addEntry(entry());
            ledgers.add(ledger);
        }
        return "{\"entries\": " + ledgers.size() * recordsAnEntry + "}";
    }

    /** What is appended: the payload, or an application's batch of it, which is copied together. */
    private byte[] entry() {
        if (recordsAnEntry == 1) {
            return payload;
        }
        byte[] batch = new byte[recordsAnEntry * payload.length];
        for (int at = 0; at < recordsAnEntry; at++) {
            System.arraycopy(payload, 0, batch, at * payload.length, payload.length);
        }
        return batch;
    }

    /** Entries under way, and the first failure. */
    private static final class Window implements AddCallback {
        final Semaphore room;
        final int size;
        final AtomicReference<String> failure = new AtomicReference<>();

        Window(long size) {
            this.size = (int) Math.max(1, Math.min(ENTRIES_OUTSTANDING_MAX, size));
            this.room = new Semaphore(this.size);
        }

        @Override
        public void addComplete(int code, LedgerHandle ledger, long entry, Object context) {
            if (code != BKException.Code.OK) {
                failure.compareAndSet(null, "entry " + entry + ": " + BKException.getMessage(code));
            }
            room.release();
        }

        void settled() throws Exception {
            room.acquire(size);
            room.release(size);
            check();
        }

        void check() throws Exception {
            if (failure.get() != null) {
                throw new IllegalStateException(failure.get());
            }
        }
    }

    private String append(Given given) throws Exception {
        long began = System.nanoTime();
        long until = began + given.number("milliseconds") * 1_000_000;
        Window window = new Window(given.number("window") / ((long) recordsAnEntry * payload.length));
        long entries = 0;
        while ((entries & 63) != 0 || System.nanoTime() < until) {
            window.room.acquire();
            byte[] entry = entry();
            ledgers.get((int) (entries % ledgers.size())).asyncAddEntry(entry, 0, entry.length, window, null);
            entries++;
        }
        window.settled();
        return done(entries * recordsAnEntry, began, null, "");
    }

    private String oneAtATime(Given given) throws Exception {
        Latencies latencies = new Latencies(1 << 20);
        long began = System.nanoTime();
        long until = began + given.number("milliseconds") * 1_000_000;
        long sent = began;
        while (sent < until) {
            ledgers.get(0).addEntry(payload);
            long now = System.nanoTime();
            latencies.add(now - sent);
            sent = now;
        }
        return done(latencies.count(), began, latencies, "");
    }

    /** Latencies in nanoseconds, kept by many threads. */
    private static final class Latencies {
        private final long[] values;
        private final AtomicLong next = new AtomicLong();

        Latencies(long most) {
            values = new long[(int) most];
        }

        void add(long nanoseconds) {
            values[(int) (next.getAndIncrement() % values.length)] = nanoseconds;
        }

        int count() {
            return (int) Math.min(values.length, next.get());
        }

        String json() {
            StringBuilder text = new StringBuilder("[");
            for (int at = 0; at < count(); at++) {
                text.append(at == 0 ? "" : ", ").append(values[at] / 1_000);
            }
            return text.append("]").toString();
        }
    }

    /** Entries that are due by a rate; their latencies count from their intended times. */
    private static final class Paced implements AddCallback {
        final long began = System.nanoTime();
        final long perSecond;
        final long every;
        final Latencies latencies;
        final AtomicLong done = new AtomicLong();
        final AtomicReference<String> failure = new AtomicReference<>();

        Paced(long perSecond, long entries, long every) {
            this.perSecond = perSecond;
            this.every = every;
            this.latencies = new Latencies(Math.max(1, entries / every + 1));
        }

        long due() {
            return (long) ((System.nanoTime() - began) * 1e-9 * perSecond) + 1;
        }

        long intended(long number) {
            return began + (long) (number * 1e9 / perSecond);
        }

        @Override
        public void addComplete(int code, LedgerHandle ledger, long entry, Object context) {
            long number = (Long) context;
            if (code != BKException.Code.OK) {
                failure.compareAndSet(null, "entry " + entry + ": " + BKException.getMessage(code));
            } else if (number % every == 0) {
                latencies.add(System.nanoTime() - intended(number));
            }
            done.incrementAndGet();
        }

        void settled(long entries) throws Exception {
            while (done.get() < entries) {
                LockSupport.parkNanos(TICK_NS);
            }
            if (failure.get() != null) {
                throw new IllegalStateException(failure.get());
            }
        }
    }

    private String atRate(Given given) throws Exception {
        long perSecond = given.number("per_second");
        long entries = perSecond * given.number("milliseconds") / 1_000;
        Paced paced = new Paced(perSecond, entries, 1);
        long sent = 0;
        while (sent < entries) {
            for (long due = Math.min(entries, paced.due()); sent < due; sent++) {
                ledgers.get((int) (sent % ledgers.size())).asyncAddEntry(payload, 0, payload.length, paced, sent);
            }
            LockSupport.parkNanos(TICK_NS);
        }
        paced.settled(entries);
        return done(entries, paced.began, paced.latencies, "");
    }

    // -- reading --

    /** Close the ledgers, and keep them for reads. */
    private String keep() throws Exception {
        long entries = 0;
        for (LedgerHandle ledger : ledgers) {
            ledger.close();
            entries += (ledger.getLastAddConfirmed() + 1) * recordsAnEntry;
        }
        return "{\"entries\": " + entries + "}";
    }

    /** Close what is open, read all of it, delete it, and say how many records there were. */
    private String finish() throws Exception {
        long entries = 0;
        for (LedgerHandle ledger : ledgers) {
            ledger.close();
            try (LedgerHandle reader = client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD)) {
                entries += readAll(reader);
            }
            client.deleteLedger(ledger.getId());
        }
        ledgers.clear();
        return "{\"entries\": " + entries + "}";
    }

    private String catchUp() throws Exception {
        long began = System.nanoTime();
        long entries = 0;
        for (LedgerHandle ledger : ledgers) {
            try (LedgerHandle reader = client.openLedgerNoRecovery(ledger.getId(), DigestType.CRC32C, PASSWORD)) {
                entries += readAll(reader);
            }
        }
        return done(entries, began, null, "");
    }

    private CompletableFuture<LedgerEntries> fetch(LedgerHandle reader, long first, long last) {
        return batchReads
            ? reader.batchReadAsync(first, (int) Math.min(READ_ENTRIES, last - first + 1), READ_BYTES)
            : reader.readAsync(first, Math.min(last, first + READ_ENTRIES - 1));
    }

    /** Read a ledger; the next entries are fetched while these are compared. */
    private long readAll(LedgerHandle reader) throws Exception {
        long last = reader.getLastAddConfirmed();
        long records = 0;
        long next = 0;
        CompletableFuture<LedgerEntries> fetching = last < 0 ? null : fetch(reader, 0, last);
        while (fetching != null) {
            try (LedgerEntries found = fetching.get()) {
                List<LedgerEntry> entries = new ArrayList<>();
                found.iterator().forEachRemaining(entries::add);
                next = entries.get(entries.size() - 1).getEntryId() + 1;
                fetching = next <= last ? fetch(reader, next, last) : null;
                for (LedgerEntry entry : entries) {
                    compare(entry);
                    records += recordsAnEntry;
                }
            }
        }
        return records;
    }

    private void compare(LedgerEntry entry) {
        byte[] found = entry.getEntryBytes();
        boolean same = found.length == recordsAnEntry * payload.length;
        for (int at = 0; same && at < found.length; at += payload.length) {
            same = Arrays.equals(found, at, at + payload.length, payload, 0, payload.length);
        }
        if (!same) {
            throw new IllegalStateException("entry " + entry.getEntryId() + " differs from what was appended");
        }
    }

    private String randomReads(Given given) throws Exception {
        Random chance = new Random(1);
        Latencies latencies = new Latencies(1 << 20);
        try (LedgerHandle reader = client.openLedgerNoRecovery(ledgers.get(0).getId(), DigestType.CRC32C, PASSWORD)) {
            int entries = (int) (reader.getLastAddConfirmed() + 1);
            Background writing = new Background(given, this);
            long began = System.nanoTime();
            long until = began + given.number("milliseconds") * 1_000_000;
            for (long sent = began; sent < until; sent = System.nanoTime()) {
                long wanted = chance.nextInt(entries);
                try (LedgerEntries found = reader.readAsync(wanted, wanted).get()) {
                    compare(found.getEntry(wanted));
                }
                latencies.add(System.nanoTime() - sent);
            }
            String more = ", \"written\": " + writing.end();
            return done(latencies.count(), began, latencies, more);
        }
    }

    /** Appends to a ledger of its own at a rate, until it is ended. */
    private static final class Background implements AddCallback {
        private final AtomicLong done = new AtomicLong();
        private final AtomicReference<String> failure = new AtomicReference<>();
        private final long perSecond;
        private final LedgerHandle ledger;
        private final byte[] entry;
        private final Thread thread;
        private final BookKeeper client;
        private volatile boolean over;
        private volatile long sent;

        Background(Given given, Driver driver) throws Exception {
            client = driver.client;
            perSecond = given.number("under_per_second", 0);
            entry = Arrays.copyOf(driver.bytes, (int) given.number("under_size", 1));
            ledger = perSecond == 0 ? null : driver.create(given);
            thread = new Thread(this::run, "background");
            thread.start();
        }

        private void run() {
            long began = System.nanoTime();
            while (!over && perSecond > 0) {
                long due = (long) ((System.nanoTime() - began) * 1e-9 * perSecond) + 1;
                for (; sent < due && sent - done.get() < ENTRIES_OUTSTANDING_MAX / 8; sent++) {
                    ledger.asyncAddEntry(entry, 0, entry.length, this, null);
                }
                LockSupport.parkNanos(TICK_NS);
            }
        }

        @Override
        public void addComplete(int code, LedgerHandle of, long id, Object context) {
            if (code != BKException.Code.OK) {
                failure.compareAndSet(null, BKException.getMessage(code));
            }
            done.incrementAndGet();
        }

        long end() throws Exception {
            over = true;
            thread.join();
            while (done.get() < sent) {
                LockSupport.parkNanos(TICK_NS);
            }
            if (failure.get() != null) {
                throw new IllegalStateException("beside: " + failure.get());
            }
            if (ledger != null) {
                ledger.close();
                client.deleteLedger(ledger.getId());
            }
            return sent;
        }
    }

    /** Append at a rate, and follow the ledger: from the intended time until the follower has it. */
    private String tail(Given given) throws Exception {
        LedgerHandle ledger = ledgers.get(0);
        long perSecond = given.number("per_second");
        long entries = perSecond * given.number("milliseconds") / 1_000;
        Latencies latencies = new Latencies(entries);
        LedgerHandle reader = client.openLedgerNoRecovery(ledger.getId(), DigestType.CRC32C, PASSWORD);
        Paced paced = new Paced(perSecond, entries, entries + 1);
        AtomicReference<String> failure = new AtomicReference<>();
        // Entry 0 is of `begin`. The last one is known to be confirmed only with an entry behind it.
        Thread follower = new Thread(() -> {
            try {
                follow(reader, paced, entries, latencies);
            } catch (Exception error) {
                failure.set(error.toString());
            }
        }, "follower");
        follower.start();
        long sent = 0;
        while (sent < entries + 1) {
            for (long due = Math.min(entries + 1, paced.due()); sent < due; sent++) {
                ledger.asyncAddEntry(payload, 0, payload.length, paced, sent);
            }
            LockSupport.parkNanos(TICK_NS);
        }
        paced.settled(entries + 1);
        // The last entry may have left before the one before it was confirmed. A writer of ours
        // tells that when it has been quiet for 20 ms; here an entry more does.
        long more = 0;
        for (follower.join(QUIET_MS); follower.isAlive(); follower.join(QUIET_MS)) {
            ledger.addEntry(payload);
            more++;
        }
        reader.close();
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return done(entries, paced.began, latencies, ", \"appended\": " + (entries + 1 + more));
    }

    /** Long polls where the protocol has them; else it asks again and again, a tick apart. */
    private void follow(LedgerHandle reader, Paced paced, long entries, Latencies latencies) throws Exception {
        long next = 1;
        while (next <= entries) {
            long confirmed;
            if (batchReads) {
                confirmed = reader.tryReadLastConfirmed();
            } else {
                try (LastConfirmedAndEntry found =
                         reader.readLastAddConfirmedAndEntryAsync(next, 1_000, false).get()) {
                    confirmed = found.getLastAddConfirmed();
                    if (found.hasEntry() && found.getEntry().getEntryId() == next) {
                        latencies.add(System.nanoTime() - paced.intended(next - 1));
                        next++;
                    }
                }
            }
            confirmed = Math.min(confirmed, entries);
            if (next <= confirmed) {
                try (LedgerEntries found = reader.readAsync(next, confirmed).get()) {
                    long now = System.nanoTime();
                    for (; next <= confirmed; next++) {
                        latencies.add(now - paced.intended(next - 1));
                    }
                }
            } else if (batchReads) {
                LockSupport.parkNanos(TICK_NS);
            }
        }
    }

    // -- lives of ledgers --

    private String createClose(Given given) throws Exception {
        long count = given.number("ledgers");
        Semaphore room = new Semaphore((int) given.number("outstanding"));
        Latencies latencies = new Latencies(count);
        AtomicReference<String> failure = new AtomicReference<>();
        List<Long> made = java.util.Collections.synchronizedList(new ArrayList<>());
        long began = System.nanoTime();
        for (long at = 0; at < count; at++) {
            room.acquire();
            long sent = System.nanoTime();
            client.asyncCreateLedger((int) given.number("ensemble", 3), (int) given.number("write", 3),
                (int) given.number("ack", 2), DigestType.CRC32C, PASSWORD, (code, ledger, context) -> {
                    if (code != BKException.Code.OK) {
                        failure.set(BKException.getMessage(code));
                        room.release();
                        return;
                    }
                    made.add(ledger.getId());
                    ledger.asyncClose((closed, same, again) -> {
                        if (closed != BKException.Code.OK) {
                            failure.set(BKException.getMessage(closed));
                        }
                        latencies.add(System.nanoTime() - sent);
                        room.release();
                    }, null);
                }, null, Map.of());
        }
        room.acquire((int) given.number("outstanding"));
        String answer = done(count, began, latencies, "");
        for (long ledger : made) {
            client.deleteLedger(ledger);
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return answer;
    }

    /** Open a ledger whose writer is gone, and read all of it. */
    private String recover(Given given) throws Exception {
        payload = Arrays.copyOf(bytes, (int) given.number("size"));
        recordsAnEntry = 1;
        long began = System.nanoTime();
        LedgerHandle reader = client.openLedger(given.number("ledger"), DigestType.CRC32C, PASSWORD);
        reader.readLastEntry();
        long last = reader.getLastAddConfirmed();
        String answer = done(last + 1, began, null, "");
        if (readAll(reader) != last + 1) {
            throw new IllegalStateException("not all of the recovered ledger is readable");
        }
        reader.close();
        client.deleteLedger(given.number("ledger"));
        return answer;
    }

    /** Append until the process is killed; say what is acknowledged now and then. */
    private String writeForEver(Given given) throws Exception {
        begin(given);
        Window window = new Window(given.number("window") / payload.length);
        LedgerHandle ledger = ledgers.get(0);
        long said = System.nanoTime();
        while (true) {
            window.room.acquire();
            window.check();
            ledger.asyncAddEntry(payload, 0, payload.length, window, null);
            if (System.nanoTime() - said > 100_000_000) {
                said = System.nanoTime();
                say("{\"ledger\": " + ledger.getId() + ", \"acked\": " + ledger.getLastAddConfirmed() + "}");
            }
        }
    }

    /** Append at a rate for long; ledgers are rolled, and every second one is deleted. */
    private String sustain(Given given) throws Exception {
        payload = Arrays.copyOf(bytes, (int) given.number("size"));
        long perSecond = given.number("per_second");
        long entries = perSecond * given.number("milliseconds") / 1_000;
        long ledgerEntries = Math.max(1, given.number("ledger_bytes") / payload.length);
        Paced paced = new Paced(perSecond, entries, given.number("every"));
        AtomicReference<String> failure = new AtomicReference<>();
        ArrayDeque<LedgerHandle> ended = new ArrayDeque<>();
        List<Long> kept = new ArrayList<>();
        ExecutorService aside = Executors.newSingleThreadExecutor();
        LedgerHandle ledger = create(given);
        CompletableFuture<LedgerHandle> following = CompletableFuture.supplyAsync(() -> made(given), aside);
        long sent = 0;
        while (sent < entries) {
            for (long due = Math.min(entries, paced.due());
                 sent < due && sent - paced.done.get() < ENTRIES_OUTSTANDING_MAX; sent++) {
                if (sent > 0 && sent % ledgerEntries == 0) {
                    LedgerHandle full = ledger;
                    ledger = following.get();
                    following = CompletableFuture.supplyAsync(() -> made(given), aside);
                    aside.execute(() -> roll(full, ended, kept, failure));
                }
                ledger.asyncAddEntry(payload, 0, payload.length, paced, sent);
            }
            LockSupport.parkNanos(TICK_NS);
        }
        paced.settled(entries);
        String answer = done(entries, paced.began, paced.latencies, ", \"ledgers\": " + (entries / ledgerEntries + 1));
        LedgerHandle last = ledger;
        LedgerHandle unused = following.get();
        aside.submit(() -> roll(last, ended, kept, failure)).get();
        aside.submit(() -> roll(unused, ended, kept, failure)).get();
        for (LedgerHandle left : ended) {
            kept.add(left.getId());
        }
        for (long id : kept) {
            client.deleteLedger(id);
        }
        aside.shutdown();
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return answer;
    }

    private LedgerHandle made(Given given) {
        try {
            return create(given);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private void roll(LedgerHandle full, ArrayDeque<LedgerHandle> ended, List<Long> kept,
                      AtomicReference<String> failure) {
        try {
            full.close();
            ended.add(full);
            if (ended.size() >= 2) {
                kept.add(ended.remove().getId());
                client.deleteLedger(ended.remove().getId());
            }
        } catch (Exception error) {
            failure.compareAndSet(null, error.toString());
        }
    }

    private static String done(long entries, long began, Latencies latencies, String more) {
        double seconds = (System.nanoTime() - began) * 1e-9;
        return "{\"entries\": " + entries + ", \"seconds\": " + seconds + more
            + (latencies == null ? "" : ", \"latencies_us\": " + latencies.json()) + "}";
    }
}
