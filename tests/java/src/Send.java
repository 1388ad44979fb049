import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.LanguageCode;

/**
 * Send NAMESRV TOPIC COUNT [name=value ...]
 *
 * Sends messages first..first+COUNT-1. Message i has the keys "K-i" and "shared-(i mod 10)", the tag TagA, TagB or none
 * (i mod 3), the user property seq=i and a body that is a function of i and size alone. Prints one line an ack, in the
 * order of i, its columns separated by tabs: i status msgId offsetMsgId queueId queueOffset.
 *
 * Options: first=0, size=64 (bytes of body), queue=-1 (-1 is round robin over the queues in order of broker and id),
 * group=PG_INTEROP, timeout=10000 (ms), level=0 (delay level), compress=4096 (bodies above are compressed), batch=1 (so many
 * messages go out in one request, all to the queue of its first one), stop=0 (1: end at the first failure).
 */
public final class Send {
    public static void main(String[] args) {
        Options.main(args, Send::run);
    }

    static int run(String[] args) throws Exception {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: Send NAMESRV TOPIC COUNT [first= size= queue= group= timeout= level= compress= batch= stop=]");
        }
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        Options options = new Options(args, 3);
        int first = options.number("first", 0);
        int size = options.number("size", 64);
        int queue = options.number("queue", -1);
        int level = options.number("level", 0);
        int batch = options.number("batch", 1);
        boolean stop = options.number("stop", 0) != 0;

        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "PG_INTEROP"));
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("send-" + System.nanoTime());
        producer.setSendMsgTimeout(options.number("timeout", 10000));
        producer.setCompressMsgBodyOverHowmuch(options.number("compress", 4096));
        producer.setMaxMessageSize(64 * 1024 * 1024);
        producer.start();
        int failed = 0;
        List<MessageQueue> queues = null;
        for (int i = first; i < first + count; i += batch) {
            List<Message> messages = new ArrayList<>();
            for (int k = i; k < Math.min(i + batch, first + count); k++) {
                messages.add(message(topic, k, size, level));
            }
            try {
                if (queues == null) {
                    queues = queues(producer, topic);
                }
                SendResult result;
                if (queues.isEmpty()) { // the topic does not exist yet: this send makes it
                    queues = null;
                    result = batch == 1 ? producer.send(messages.get(0)) : producer.send(messages);
                } else {
                    MessageQueue to = queue >= 0
                        ? new MessageQueue(topic, queues.get(0).getBrokerName(), queue) : queues.get(i % queues.size());
                    result = batch == 1 ? producer.send(messages.get(0), to) : producer.send(messages, to);
                }
                String[] ids = result.getMsgId().split(",");
                String[] offsetIds = result.getOffsetMsgId().split(",");
                for (int k = 0; k < messages.size(); k++) {
                    System.out.println(i + k + "\t" + result.getSendStatus() + "\t" + ids[k] + "\t" + offsetIds[k] + "\t"
                        + result.getMessageQueue().getQueueId() + "\t" + (result.getQueueOffset() + k));
                }
            } catch (Exception e) {
                failed++;
                System.out.println(i + "\tFAILED\t" + e.toString().replaceAll("\\s+", " "));
                if (stop) {
                    break;
                }
            }
        }
        producer.shutdown();
        return failed == 0 ? 0 : 1;
    }

    /** The topic's queues in a fixed order, empty while no name server knows the topic. */
    private static List<MessageQueue> queues(DefaultMQProducer producer, String topic) {
        try {
            List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
            queues.sort(null);
            return queues;
        } catch (Exception unknown) {
            return List.of();
        }
    }

    private static Message message(String topic, int i, int size, int level) {
        Message message = new Message(topic, tag(i), body(i, size));
        message.setKeys(Arrays.asList("K-" + i, "shared-" + i % 10));
        message.putUserProperty("seq", Integer.toString(i));
        if (level > 0) {
            message.setDelayTimeLevel(level);
        }
        return message;
    }

    private static String tag(int i) {
        return i % 3 == 0 ? "TagA" : i % 3 == 1 ? "TagB" : null;
    }

    /** The text "body-i;" repeated up to just size bytes. */
    static byte[] body(int i, int size) {
        byte[] unit = ("body-" + i + ";").getBytes(StandardCharsets.UTF_8);
        byte[] body = new byte[size];
        for (int at = 0; at < size; at++) {
            body[at] = unit[at % unit.length];
        }
        return body;
    }

    private Send() {
    }
}
