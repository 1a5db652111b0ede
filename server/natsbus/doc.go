// Package natsbus implements [bus.Bus] on NATS. Signals are NATS messages, and the log of
// events is a JetStream stream.
//
//	b, err := natsbus.Open(ctx, "nats://user:password@a:4222,b:4222,c:4222", nil)
//
// A process can start, and its calls do not block for long, while no NATS server can be
// reached. Signal and Append fail immediately, or within two seconds if the connection has just
// been lost. Listeners and live readers resume by themselves after the connection is restored.
// A silently dead connection is closed after three seconds.
//
// # Subjects and streams
//
//	<name>.signal.<topic>    signals; the topic is encoded, so it contains no wildcards
//	<name>.events.<thread>   events, stored in the stream <NAME>_EVENTS
//	<name>.live.<thread>     the same events, republished by the server for live readers
//
// The stream is stored on disk. It keeps events for ten minutes, ignores duplicates within two
// minutes, and has three replicas if the cluster has three servers. Open creates the stream; if
// the server is down at that time, a background goroutine creates it later. The NATS user needs
// permission to publish and subscribe to <name>.>, _INBOX.>, $JS.API.>, and
// $JS.EVENT.ADVISORY.STREAM.>.
//
// Events larger than the maximum message size (max_payload of the server, 1 MB by default) are
// stored in parts, which Read reassembles. The maximum size is 64 MB.
//
// # Reading a thread
//
// Read uses batched direct gets for stored events, which need no state on the server. In a
// cluster, any replica may answer a direct get, even one that lags behind, so Read finally asks
// the stream leader whether there is more.
//
// A live reader also subscribes to <name>.live.<thread>. The server includes in the header of
// each message its sequence number and the sequence number of the previous message of the
// thread. The reader can therefore detect a gap and read the missing messages from the stream.
// It also reads from the stream after a lost connection, after the election of a new stream
// leader, when its queue overflows (512 messages or 4 MB), and every ten seconds. Within a
// process, the readers of a thread share a subscription, and the readers of all threads share a
// goroutine.
//
// Two alternatives were tested. An ordered JetStream consumer per reader is an object on the
// server, and takes five goroutines in client and server. A shared consumer per process for all
// followed threads has a list of subjects, and the server compares each with all others when
// one is added. BenchmarkReaders compares Read with ordered consumers: one connection reads
// 1,000 threads that receive 1,000 events per second from another connection, with the server
// in the same process, on two shared cores (load 5), medians of three runs:
//
//	                               Read       ordered consumers
//	memory of client and server    9 KiB      65 KiB per reader
//	from Append to the reader      0.15 ms    0.33 ms (p50)
//	                               0.7 ms     12 ms (p99)
//	until all 1,000 have started   0.2 s      0.7 s
//
// The ordered consumers used their default settings. Adding a thread to a shared consumer with
// slightly more than 1,000 threads took 0.2 s (average of 50, one run).
package natsbus
