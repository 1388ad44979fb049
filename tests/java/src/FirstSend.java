import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * FirstSend NAMESRV TOPIC [warm=NAMESRV]
 *
 * A producer that runs before the servers do: prints "running", waits for a line on its input, then sends until one
 * message is acknowledged and prints the time of that, in nanoseconds since 1970. With warm=, the JVM has sent 500 messages
 * to that other cluster before.
 */
public final class FirstSend {
    public static void main(String[] args) {
        Options.main(args, FirstSend::run);
    }

    private static int run(String[] args) throws Exception {
        if (args.length < 2) {
            throw new IllegalArgumentException("usage: FirstSend NAMESRV TOPIC [warm=]");
        }
        String warm = new Options(args, 2).text("warm", null);
        if (warm != null) {
            DefaultMQProducer other = producer(warm);
            for (int sent = 0; sent < 500; ) {
                sent += attempt(other, args[1]) ? 1 : 0;
            }
            other.shutdown();
        }
        DefaultMQProducer producer = producer(args[0]);
        attempt(producer, args[1]); // no server is there yet
        System.out.println("running");
        if (System.in.read() < 0) {
            return 1;
        }
        while (!attempt(producer, args[1])) {
            Thread.sleep(5);
        }
        java.time.Instant now = java.time.Instant.now();
        System.out.println(now.getEpochSecond() * 1_000_000_000L + now.getNano());
        return 0;
    }

    private static DefaultMQProducer producer(String nameServer) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG_FIRST");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("first-" + System.nanoTime());
        producer.start();
        return producer;
    }

    private static boolean attempt(DefaultMQProducer producer, String topic) throws InterruptedException {
        try {
            SendResult result = producer.send(new Message(topic, "first".getBytes(StandardCharsets.UTF_8)));
            return result.getMsgId() != null;
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception notYet) {
            return false;
        }
    }

    private FirstSend() {
    }
}
