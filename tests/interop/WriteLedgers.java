import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Writes a closed ledger of each digest type, and one that stays open, and says which. */
public final class WriteLedgers {
    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        byte[] password = "passwd".getBytes(StandardCharsets.UTF_8);
        Map<String, byte[]> custom = Map.of("team", "storage".getBytes(StandardCharsets.UTF_8));
        BookKeeper client = new BookKeeper(configuration);
        for (DigestType type : DigestType.values()) {
            LedgerHandle ledger = client.createLedger(1, 1, 1, type, password, custom);
            for (int entry = 0; entry < 10; entry++) {
                ledger.addEntry(new byte[100]);
            }
            ledger.close();
            System.out.println("LEDGER " + ledger.getId() + " " + type + " CLOSED");
        }
        LedgerHandle open = client.createLedger(1, 1, 1, DigestType.CRC32C, password, custom);
        System.out.println("LEDGER " + open.getId() + " CRC32C OPEN");
        System.exit(0);
    }
}
