package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ThreeDotsLabs/watermill/message"
	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// Ten thousand messages, of one call and of as many callers, take time in proportion.
func TestPublishHugeCalls(t *testing.T) {
	realTime(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		f := h.fifo("orders.fifo", nil)
		start := time.Now()
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(10000)...))
		t.Log("standard", time.Since(start))
		assert.Equal(t, 10000, q.Len())
		pub := h.publisher(watermillsqs.PublisherConfig{GroupID: func(string, *message.Message) string { return "A" }})
		start = time.Now()
		assert.Empty(t, publishing(pub, "orders.fifo", singles(0, 10000)...).wait())
		t.Log("fifo, one group, 10000 callers", time.Since(start))
		assert.Equal(t, 10000, f.Len())
		assert.Eventually(t, func() bool { return watermillsqs.Leftovers(h.conn) == 0 }, 2*time.Second, 10*time.Millisecond)
	})
}
