import t from 'tap'
import { EventLines } from '../../../../../../src/kas/servers/kubernetes/watch/event-lines.ts'
import { ByteBudget } from '../../../../../../src/lib/byte-budget.ts'

const texts = (lines: EventLines, chunk: string) => [...lines.push(Buffer.from(chunk))].map(String)

t.test('pieces of a line are joined, and given back when it is whole', async (t) => {
  const lines = new EventLines(new ByteBudget(1000))
  t.same(texts(lines, 'a'), [])
  t.same(texts(lines, 'b\nc\nd'), ['ab', 'c'])
  for (let i = 0; i < 100; i++) t.same(texts(lines, '\n'), [i === 0 ? 'd' : ''])
})

t.test('what waits counts with what it costs: tiny pieces are bounded too', async (t) => {
  const lines = new EventLines(new ByteBudget(1000))
  t.throws(
    () => {
      for (let i = 0; i < 1000; i++) for (const _ of lines.push(Buffer.from('x')));
    },
    { code: 'MESSAGE_TOO_LARGE' },
  )
  const others = new EventLines(new ByteBudget(10))
  for (let i = 0; i < 1000; i++) others.keep(new Uint8Array(0))
  t.equal(others.rest().length, 0)
})

t.test('what waits does not hold the message that it came in', async (t) => {
  const message = Buffer.from('line\nrest')
  const lines = new EventLines(new ByteBudget(1000))
  t.same([...lines.push(message)].map(String), ['line'])
  message.fill('x')
  t.same(texts(lines, '\n'), ['rest'])
})

t.test('a line counts as kept until the next is asked for', async (t) => {
  const kept = new ByteBudget(400)
  const [slow, other] = [new EventLines(kept), new EventLines(kept)]
  const given = slow.push(Buffer.from(`${'x'.repeat(200)}\n`))
  t.equal(given.next().value?.length, 200)
  t.throws(() => [...other.push(Buffer.from(`${'y'.repeat(200)}\n`))], { code: 'MESSAGE_TOO_LARGE' })
  t.equal(given.next().done, true)
  t.same(texts(other, 'z\n'), ['z'])
})
