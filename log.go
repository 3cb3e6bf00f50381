package watermillsqs

import "github.com/ThreeDotsLabs/watermill"

// The fields of log entries. Payloads and metadata are never logged.
const (
	logQueue        = "queue"
	logTopic        = "topic"
	logMessageID    = "message_id"
	logReceiveCount = "receive_count"
)

// warn logs what works but should not stay so. Watermill's loggers have no level
// between Info and Error, so it is a field.
func warn(log watermill.LoggerAdapter, msg string, fields watermill.LogFields) {
	log.Info(msg, fields.Add(watermill.LogFields{"level": "warning"}))
}

// traces reports whether it is worth making the fields of an entry that is logged for
// every message.
func traces(log watermill.LoggerAdapter) bool {
	_, nop := log.(watermill.NopLogger)
	return !nop
}
