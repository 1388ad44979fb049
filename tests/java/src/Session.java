import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Session: runs one command a line of its input, the words separated by tabs, until the input ends: Send, Receive, DumpAll,
 * Tx and mqadmin, each with its usual arguments. A JVM costs a second, a command in a running one some milliseconds.
 *
 * Every line a command prints comes out at once with a letter before it: o for standard output, e for standard error.
 * A line "x CODE" ends the command.
 */
public final class Session {
    /** Passes whole lines on, each with its letter. */
    private static final class Lettered extends OutputStream {
        private final PrintStream to;
        private final String letter;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        Lettered(PrintStream to, String letter) {
            this.to = to;
            this.letter = letter;
        }

        @Override
        public synchronized void write(int b) {
            if (b == '\n') {
                end();
            } else {
                line.write(b);
            }
        }

        synchronized void end() {
            to.println(letter + line.toString(StandardCharsets.UTF_8));
            line.reset();
        }

        synchronized void endPart() {
            if (line.size() > 0) {
                end();
            }
        }
    }

    public static void main(String[] args) throws IOException {
        PrintStream real = new PrintStream(System.out, true, "UTF-8");
        Lettered out = new Lettered(real, "o");
        Lettered err = new Lettered(real, "e");
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        hastenShutdowns(Thread.currentThread());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            int code = Options.code(Arrays.copyOfRange(words, 1, words.length), rest -> program(words[0]).run(rest));
            System.out.flush();
            System.err.flush();
            out.endPart();
            err.endPart();
            real.println("x" + code);
        }
        System.exit(0); // the threads of clients outlive main
    }

    /** The tool's commands keep a client that they shut down: every run needs new ones. */
    private static final class Tool extends MQAdminStartup {
        static void renew() {
            SUB_COMMANDS.clear();
            initCommand();
        }
    }

    /**
     * A client that stops waits up to three seconds for the poll of its event thread. While "main" is in there, such
     * threads are interrupted; they look whether they are stopped and go on otherwise.
     */
    private static void hastenShutdowns(Thread main) {
        Thread hasten = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    return;
                }
                boolean stopping = main.getState() == Thread.State.TIMED_WAITING && Arrays.stream(main.getStackTrace())
                    .anyMatch(f -> f.getClassName().endsWith(".ServiceThread") && f.getMethodName().equals("shutdown"));
                if (stopping) {
                    Thread[] threads = new Thread[Thread.activeCount() + 50];
                    int count = Thread.enumerate(threads);
                    Arrays.stream(threads, 0, count).filter(t -> t.getName().contains("NettyEventExecutor"))
                        .forEach(Thread::interrupt);
                }
            }
        });
        hasten.setDaemon(true);
        hasten.start();
    }

    private static Options.Program program(String name) {
        switch (name) {
            case "Send":
                return Send::run;
            case "Receive":
                return Receive::run;
            case "DumpAll":
                return DumpAll::run;
            case "Tx":
                return Tx::run;
            case "mqadmin":
                return words -> {
                    Tool.renew();
                    MQAdminStartup.main(words);
                    return 0; // as the tool: it reports failures by a stack trace alone
                };
            default:
                throw new IllegalArgumentException("no such command: " + name);
        }
    }

    private Session() {
    }
}
