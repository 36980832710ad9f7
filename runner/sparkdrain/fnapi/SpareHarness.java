import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.reflect.Field;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.logging.LogManager;
import java.util.logging.Logger;

/**
 * A JVM that has loaded Beam's classes, and waits for the job that it is to be the SDK harness of.
 *
 * <p>Java runs this file as it is. Its arguments are a list of classes, its folder while it gets
 * ready, the folder's name when it is, and a file with variables. A harness has these in its
 * environment. First it is a harness with the variables of the file, whose runner has bundles of its
 * own: a rehearsal. Then it reads other variables from a pipe in the folder, and where the folder is
 * now, up to an empty line. It ends when the other end of the pipe closes. No DoFn and no
 * JvmInitializer of the user's runs before it has those.
 *
 * <p>A byte in the pipe says that the harness is to end. Then the last record of its log, under a name
 * of its own, says that all DoFns are torn down: the harness waits for up to a second after that.
 */
public final class SpareHarness {
  private static final String MAIN = "org.apache.beam.fn.harness.FnHarness";
  private static final String PIPE = "pipe";
  private static final String FOLDER = "SPARKDRAIN_FOLDER";
  private static final long PATIENCE_MILLIS = 3000;
  private static final String TORN_DOWN = "sparkdrain.torn-down";
  private static final String LOGGING = "org.apache.beam.fn.harness.logging.BeamFnLoggingClient";
  private static final long LOOK_MILLIS = 5;
  private static final String INITIALIZERS = "org.apache.beam.sdk.fn.JvmInitializers";
  private static final String INITIALIZER_FILE =
      "META-INF/services/org.apache.beam.sdk.harness.JvmInitializer";
  private static final String CHANNELS = ".io.grpc.internal.ManagedChannelOrphanWrapper";

  /** Complains of the channels of the rehearsal, which Beam leaves open. */
  private static Logger complaints;

  private SpareHarness() {}

  public static void main(String[] arguments) throws Exception {
    ClassLoader loader = ClassLoader.getSystemClassLoader();
    Thread.currentThread().setContextClassLoader(loader);
    for (String name : Files.readAllLines(Path.of(arguments[0]))) {
      load(name, loader);
    }
    rehearse(Path.of(arguments[3]), loader);
    Path ready = Path.of(arguments[2]);
    Map<String, String> variables;
    InputStream caller;
    // Open for both, so that whoever finds the folder finds a reader, too.
    Path begun = Path.of(arguments[1]);
    try (RandomAccessFile pipe = new RandomAccessFile(begun.resolve(PIPE).toFile(), "rw")) {
      BufferedReader told =
          new BufferedReader(
              new InputStreamReader(new FileInputStream(pipe.getFD()), StandardCharsets.UTF_8));
      Files.move(begun, ready);
      variables = read(told);
      String folder = variables.get(FOLDER);
      // Has an end, as no other end to write is open here.
      caller = new FileInputStream(Path.of(folder).resolve(PIPE).toFile());
    }
    Thread harness = Thread.currentThread();
    Thread watch = new Thread(() -> endWith(caller, harness), "sparkdrain-caller");
    watch.setDaemon(true);
    watch.start();
    run(variables, loader);
  }

  private static Map<String, String> read(BufferedReader told) throws IOException {
    Map<String, String> variables = new HashMap<>();
    for (String line = told.readLine(); !line.isEmpty(); line = told.readLine()) {
      int end = line.indexOf('=');
      variables.put(line.substring(0, end), line.substring(end + 1));
    }
    return variables;
  }

  private static void run(Map<String, String> variables, ClassLoader loader) throws Exception {
    Function<String, String> variable = variables::get;
    Class.forName(MAIN, true, loader).getMethod("main", Function.class).invoke(null, variable);
  }

  /** Is a harness for once. Nothing of it is left but what Java has learned. */
  private static void rehearse(Path told, ClassLoader loader) throws IOException {
    PrintStream out = System.out;
    PrintStream err = System.err;
    PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
    Rehearsing rehearsing = new Rehearsing(loader);
    Thread.currentThread().setContextClassLoader(rehearsing);
    System.setOut(nowhere);
    System.setErr(nowhere);
    try (BufferedReader reader = Files.newBufferedReader(told)) {
      run(read(reader), loader);
      Field ran = Class.forName(INITIALIZERS, true, loader).getDeclaredField("initialized");
      ran.setAccessible(true);
      ((AtomicBoolean) ran.get(null)).set(false);
    } catch (Exception | LinkageError error) {
      // It will take longer, and say what is wrong.
    } finally {
      rehearsing.isOver = true;
      Thread.currentThread().setContextClassLoader(loader);
      System.setOut(out);
      System.setErr(err);
      // What it logs without Beam's client goes to what is standard error now.
      LogManager.getLogManager().readConfiguration();
    }
  }

  /** Finds no JvmInitializers before it is over. Threads of gRPC's that stay have it afterwards. */
  private static final class Rehearsing extends ClassLoader {
    private volatile boolean isOver;

    Rehearsing(ClassLoader loader) {
      super(loader);
    }

    @Override
    public Enumeration<URL> getResources(String name) throws IOException {
      boolean isHidden = !isOver && name.equals(INITIALIZER_FILE);
      return isHidden ? Collections.emptyEnumeration() : super.getResources(name);
    }
  }

  private static void load(String name, ClassLoader loader) {
    if (name.endsWith(CHANNELS)) {
      complaints = Logger.getLogger(name);
      complaints.setFilter(record -> false);
    }
    try {
      Class.forName(name, true, loader);
    } catch (ClassNotFoundException | LinkageError error) {
      // The harness will say so, if it needs the class.
    }
  }

  private static void endWith(InputStream caller, Thread harness) {
    try {
      while (caller.read() >= 0) {
        Thread look = new Thread(() -> tellTornDown(harness), "sparkdrain-torn-down");
        look.setDaemon(true);
        look.start();
      }
    } catch (IOException error) {
      // The caller is gone, too.
    }
    Thread end = new Thread(() -> System.exit(1), "sparkdrain-end");
    end.setDaemon(true);
    end.start();
    try {
      end.join(PATIENCE_MILLIS);
    } catch (InterruptedException error) {
      // It ends now.
    }
    Runtime.getRuntime().halt(1);
  }

  private static void tellTornDown(Thread harness) {
    while (!isClosingLog(harness)) {
      if (!harness.isAlive()) {
        return;
      }
      try {
        Thread.sleep(LOOK_MILLIS);
      } catch (InterruptedException error) {
        return;
      }
    }
    Logger.getLogger(TORN_DOWN).severe("torn down");
  }

  /** Whether the harness closes its log, which is the last thing that it does. */
  private static boolean isClosingLog(Thread harness) {
    for (StackTraceElement frame : harness.getStackTrace()) {
      if (frame.getClassName().equals(LOGGING) && frame.getMethodName().equals("close")) {
        return true;
      }
    }
    return false;
  }
}
