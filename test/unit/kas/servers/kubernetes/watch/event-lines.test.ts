import t from 'tap'
import { EventLines } from '../../../../../../src/kas/servers/kubernetes/watch/event-lines.ts'
import { PartialBytes } from '../../../../../../src/kas/servers/kubernetes/watch/partial-bytes.ts'

t.test('pieces of a line are joined, and given back when it is whole', async (t) => {
  const lines = new EventLines(new PartialBytes(1000))
  t.same([...lines.push(Buffer.from('a'))], [])
  t.same([...lines.push(Buffer.from('b\nc\nd'))], ['ab', 'c'])
  for (let i = 0; i < 100; i++) t.same([...lines.push(Buffer.from('\n'))], [i === 0 ? 'd' : ''])
})

t.test('what waits counts with what it costs: tiny pieces are bounded too', async (t) => {
  const lines = new EventLines(new PartialBytes(1000))
  t.throws(
    () => {
      for (let i = 0; i < 1000; i++) for (const _ of lines.push(Buffer.from('x')));
    },
    { code: 'MESSAGE_TOO_LARGE' },
  )
  const others = new EventLines(new PartialBytes(10))
  for (let i = 0; i < 1000; i++) others.keep(new Uint8Array(0))
  t.equal(others.rest(), '')
})

t.test('what waits does not hold the message that it came in', async (t) => {
  const message = Buffer.from('line\nrest')
  const lines = new EventLines(new PartialBytes(1000))
  t.same([...lines.push(message)], ['line'])
  message.fill('x')
  t.same([...lines.push(Buffer.from('\n'))], ['rest'])
})
