import t from 'tap'
import { BoundedLines } from '../../../src/lib/bounded-lines.ts'
import { type LineSink, LineWriter } from '../../../src/lib/line-writer.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** A sink; the test ends its writes one by one. */
class HeldSink implements LineSink {
  text = ''
  readonly writes: { lines: Buffer; from: number; done: (to: number, error?: Error) => void }[] = []
  #arrived = Promise.withResolvers<void>()

  write(lines: Buffer, from: number, done: (to: number, error?: Error) => void): void {
    this.writes.push({ lines, from, done })
    this.#arrived.resolve()
  }

  writeNow(lines: Buffer): void {
    this.text += lines
  }

  /** Ends the next write, which takes `bytes` bytes. */
  async end(bytes = Number.POSITIVE_INFINITY, error?: Error): Promise<void> {
    if (this.writes.length === 0) await this.#arrived.promise
    this.#arrived = Promise.withResolvers()
    const { lines, from, done } = this.writes.shift() as (typeof this.writes)[0]
    const to = Math.min(lines.length, from + bytes)
    this.text += lines.subarray(from, to)
    done(to, error)
  }
}

function ground(maxBytes = 1000) {
  const sink = new HeldSink()
  const clock = new ManualClock()
  const source = new BoundedLines(maxBytes, (count) => `lost ${count}\n`)
  const failures: string[] = []
  const writer = new LineWriter({ source, sink, clock, onFailed: ({ message }) => failures.push(message) })
  const add = (...lines: string[]) => {
    for (const line of lines) source.add(`${line}\n`)
    writer.wake()
  }
  return { sink, clock, source, writer, failures, add }
}

t.test('lines of one turn are one write, and those that come meanwhile the next', async (t) => {
  const { sink, add, writer } = ground()
  add('a', 'b')
  add('c')
  await sink.end()
  t.equal(sink.text, 'a\nb\nc\n')
  add('d')
  t.equal(await writer.flush(AbortSignal.abort()), false)
  await sink.end()
  t.equal(await writer.flush(new AbortController().signal), true)
  t.equal(sink.text, 'a\nb\nc\nd\n')
})

t.test('who adds a line never waits, and what is beyond the bound is counted where it would have stood', async (t) => {
  const { sink, add } = ground(100)
  add('first')
  await new Promise(setImmediate)
  t.equal(sink.writes.length, 1, 'and its reader has stopped')
  for (let i = 0; i < 100_000; i++) add('x'.repeat(9))
  await sink.end()
  await sink.end()
  add('last')
  await sink.end()
  await sink.end()
  t.equal(sink.text, `first\n${'xxxxxxxxx\n'.repeat(10)}lost 99990\nlast\n`)
})

t.test('what could not be written is tried again from the byte at which it stopped', async (t) => {
  const { sink, clock, failures, add } = ground()
  add('abcdef', 'ghi')
  await sink.end(3, new Error('ENOSPC'))
  t.strictSame(failures, ['ENOSPC'])
  t.equal(sink.writes.length, 0)
  add('later')
  clock.advance(999)
  t.equal(sink.writes.length, 0)
  clock.advance(1)
  await sink.end(0, new Error('ENOSPC'))
  clock.advance(1000)
  await sink.end(2)
  await sink.end()
  await sink.end()
  t.equal(sink.text, 'abcdef\nghi\nlater\n')
})

t.test('at the end of the process what waits is written as it stands', async (t) => {
  const { sink, writer, clock, add } = ground()
  add('abc')
  await sink.end(1, new Error('EAGAIN'))
  add('d')
  writer.flushNow()
  t.equal(sink.text, 'abc\nd\n')
  t.equal(clock.pending, 0)
})

t.test('lines keep their order while more come than are taken', async (t) => {
  const source = new BoundedLines(1_000_000, () => 'lost\n')
  let taken = ''
  for (let i = 0; i < 1000; i++) {
    source.add(`${2 * i}\n`)
    source.add(`${2 * i + 1}\n`)
    taken += source.take(1)
  }
  for (let rest = source.take(64); rest !== undefined; rest = source.take(64)) taken += rest
  t.strictSame(
    taken.trim().split('\n').map(Number),
    Array.from({ length: 2000 }, (_, i) => i),
  )
})
