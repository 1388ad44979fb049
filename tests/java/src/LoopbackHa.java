import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.ha.DefaultHAService;

/**
 * The broker's own replication, with its port on 127.0.0.1: bindAddress of the broker's configuration does not reach it.
 * The broker finds this class by META-INF/service when DIR/classes comes before DIR/lib on the class path.
 */
public final class LoopbackHa extends DefaultHAService {
    @Override
    public void init(DefaultMessageStore store) throws IOException {
        super.init(store);
        try {
            Field address = acceptSocketService.getClass().getSuperclass().getDeclaredField("socketAddressListen");
            address.setAccessible(true);
            address.set(acceptSocketService,
                new InetSocketAddress("127.0.0.1", store.getMessageStoreConfig().getHaListenPort()));
        } catch (ReflectiveOperationException e) {
            throw new IOException("no such field in this release of rocketmq-store", e);
        }
    }
}
