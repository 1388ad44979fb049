import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Tx NAMESRV TOPIC COUNT [name=value ...]
 *
 * Sends half messages first..first+COUNT-1 with the key "K-i" and the bodies of Send. Message i is committed, rolled back or
 * left open for i mod 3 = 0, 1, 2, or all are left open (open=1). Then it stays until the broker has asked about `checks`
 * different messages, for `wait` seconds at most, and answers each with a commit. Prints one line a message
 * "i status state transactionId", and "check key topic" for the first question about each; exit 1 when fewer were asked.
 *
 * Options: first=0, group=PG_TX, open=0, checks=0, wait=60.
 */
public final class Tx {
    public static void main(String[] args) {
        Options.main(args, Tx::run);
    }

    static int run(String[] args) throws Exception {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: Tx NAMESRV TOPIC COUNT [first= group= open= checks= wait=]");
        }
        int count = Integer.parseInt(args[2]);
        Options options = new Options(args, 3);
        int first = options.number("first", 0);
        boolean open = options.number("open", 0) != 0;
        int checks = options.number("checks", 0);
        Set<String> asked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer producer = new TransactionMQProducer(options.text("group", "PG_TX"));
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("tx-" + System.nanoTime());
        producer.setSendMsgTimeout(10000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setPollNameServerInterval(1000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object i) {
                int kind = open ? 2 : (Integer) i % 3;
                return kind == 0 ? LocalTransactionState.COMMIT_MESSAGE
                    : kind == 1 ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (asked.add(message.getKeys())) {
                    System.out.println("check\t" + message.getKeys() + "\t" + message.getTopic());
                }
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        int failed = 0;
        for (int i = first; i < first + count; i++) {
            try {
                Message message = new Message(args[1], "TagTx", "K-" + i, Send.body(i, 64));
                TransactionSendResult result = producer.sendMessageInTransaction(message, i);
                System.out.println(i + "\t" + result.getSendStatus() + "\t" + result.getLocalTransactionState() + "\t"
                    + result.getTransactionId());
            } catch (Exception e) {
                failed++;
                System.out.println(i + "\tFAILED\t" + e.toString().replaceAll("\\s+", " "));
            }
        }
        if (checks > 0) {
            // A producer that sent nothing knows no broker, and sends no heartbeat.
            MQClientInstance client = producer.getDefaultMQProducerImpl().getMqClientFactory();
            client.updateTopicRouteInfoFromNameServer(args[1]);
            client.sendHeartbeatToAllBrokerWithLock();
        }
        long end = System.currentTimeMillis() + options.number("wait", 60) * 1000L;
        while (asked.size() < checks && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        Thread.sleep(checks > 0 ? 500 : 0); // the last answers are on their way, oneway
        producer.shutdown();
        return failed == 0 && asked.size() >= checks ? 0 : 1;
    }

    private Tx() {
    }
}
