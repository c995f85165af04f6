import java.net.URI;
import org.apache.bookkeeper.bookie.Cookie;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.discover.RegistrationManager;
import org.apache.bookkeeper.meta.MetadataBookieDriver;
import org.apache.bookkeeper.meta.MetadataDrivers;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.versioning.Versioned;

/** Reads cookies by Apache's Java API, which takes ids that the shell's cookie commands refuse. */
public final class ReadCookie {
    public static void main(String[] arguments) throws Exception {
        ServerConfiguration configuration = new ServerConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        try (MetadataBookieDriver driver =
                MetadataDrivers.getBookieDriver(URI.create(arguments[0]))) {
            driver.initialize(configuration, NullStatsLogger.INSTANCE);
            try (RegistrationManager manager = driver.createRegistrationManager()) {
                for (int i = 1; i < arguments.length; i++) {
                    Versioned<Cookie> cookie =
                        Cookie.readFromRegistrationManager(manager, BookieId.parse(arguments[i]));
                    System.out.println("COOKIE " + arguments[i] + " "
                        + cookie.getValue().toString().replace("\n", " | "));
                }
            }
        }
    }
}
