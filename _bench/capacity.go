package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// serverCapacity is what the server can do for a client that costs next to nothing: raw
// HTTP, requests made beforehand, answers not decoded.
type serverCapacity struct {
	Rate float64 // messages/s that are sent, received and deleted
	CPU  float64 // of the server, in µs a message
}

func (c serverCapacity) String() string {
	return fmt.Sprintf("%.0f messages/s sent, received and deleted by a client without an SDK, %.1f µs of its own CPU each", c.Rate, c.CPU)
}

func measureCapacity(endpoint string, seconds float64) (serverCapacity, error) {
	const queue, workers = "capacity", 8
	c := control{endpoint}
	if err := c.reset(resetRequest{Queue: queue}); err != nil {
		return serverCapacity{}, err
	}
	queueURL := endpoint + "/000000000000/" + queue
	var entries []map[string]any
	for i := range batchSize {
		m := newPayload(i)
		texts := map[string]any{"_watermill_message_uuid": stringAttribute(m.uuid)}
		for key, value := range m.metadata {
			texts[key] = stringAttribute(value)
		}
		entries = append(entries, map[string]any{"Id": strconv.Itoa(i), "MessageBody": m.body, "MessageAttributes": texts})
	}
	send, err := json.Marshal(map[string]any{"QueueUrl": queueURL, "Entries": entries})
	if err != nil {
		return serverCapacity{}, err
	}
	receive := []byte(`{"QueueUrl":"` + queueURL + `","MaxNumberOfMessages":10,"MessageAttributeNames":["All"],"MessageSystemAttributeNames":["All"]}`)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	trip := func() error {
		if _, err := rawCall(client, endpoint, "SendMessageBatch", send); err != nil {
			return err
		}
		answer, err := rawCall(client, endpoint, "ReceiveMessage", receive)
		if err != nil {
			return err
		}
		_, err = rawCall(client, endpoint, "DeleteMessageBatch", deleteAll(queueURL, answer))
		return err
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	failures := make(chan error, workers)
	trips := make([]int, workers)
	for w := range workers {
		group.Go(func() {
			for time.Now().Before(end) {
				if err := trip(); err != nil {
					failures <- err
					return
				}
				trips[w]++
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return serverCapacity{}, err
	default:
	}
	stats, err := c.stats(queue)
	n := 0
	for _, t := range trips {
		n += t * batchSize
	}
	return serverCapacity{Rate: float64(n) / stats.Wall.Seconds(), CPU: float64(stats.CPU.Microseconds()) / float64(n)}, err
}

// deleteAll is the request that deletes what a receive has brought.
func deleteAll(queueURL string, answer []byte) []byte {
	var request bytes.Buffer
	request.WriteString(`{"QueueUrl":"` + queueURL + `","Entries":[`)
	mark := []byte(`"ReceiptHandle":"`)
	for i := 0; ; i++ {
		_, rest, found := bytes.Cut(answer, mark)
		if !found {
			break
		}
		handle, after, _ := bytes.Cut(rest, []byte{'"'})
		if i > 0 {
			request.WriteByte(',')
		}
		fmt.Fprintf(&request, `{"Id":"%d","ReceiptHandle":"%s"}`, i, handle)
		answer = after
	}
	request.WriteString(`]}`)
	return request.Bytes()
}

func rawCall(client *http.Client, endpoint, action string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(body)) //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", action, response.StatusCode, answer)
	}
	return answer, err
}
