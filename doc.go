// Package watermillsqs is a Watermill transport over Amazon SQS.
package watermillsqs
