import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { ReceivedFiles } from '../../../../../../src/agentk/modules/gitops/preview/received-files.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { PreviewRequestSchema } from '../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { maxFileBytes, maxFiles, maxRoundBytes } from '../../../../../../src/proto/gitops/limits.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** The files of a preview, and what is refused of them before it is kept. */

type Part = NonNullable<MessageInitShape<typeof PreviewRequestSchema>['what']>

const begin: Part = { case: 'begin', value: { source: '42-7' } }
const file = (path: string, data: string | Uint8Array = ''): Part => ({
  case: 'file',
  value: { path, data: typeof data === 'string' ? Buffer.from(data) : data },
})
const end = (files: number): Part => ({ case: 'end', value: { files } })
const { signal } = new AbortController()

async function* sent(parts: Iterable<Part>): AsyncGenerator<Uint8Array> {
  for (const what of parts) yield toBinary(PreviewRequestSchema, create(PreviewRequestSchema, { what }))
}

function start(parts: Iterable<Part>, maxBytes = Number.POSITIVE_INFINITY) {
  const room = (bytes: number) => {
    if (bytes > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes })
  }
  return new ReceivedFiles({ messages: sent(parts), room, clock: new ManualClock() })
}

async function read(parts: Iterable<Part>, maxBytes?: number) {
  const received = start(parts, maxBytes)
  await received.begin(signal)
  return await received.files(signal)
}

t.test('files come in parts, in memory that threads share', async (t) => {
  const files = await read([begin, file('a', 'one '), file('a', 'two'), file('empty'), file('b', 'x'), end(3)])
  t.strictSame(
    files.map(({ path, data }) => [path, Buffer.from(data).toString()]),
    [
      ['a', 'one two'],
      ['empty', ''],
      ['b', 'x'],
    ],
  )
  t.ok(files.every(({ data }) => data.buffer instanceof SharedArrayBuffer))
})

t.test('messages in another order, or missing ones, are refused', async (t) => {
  const wrong: readonly (readonly Part[])[] = [
    [],
    [file('a')],
    [begin, begin],
    [begin, file('a')],
    [begin, file('a'), end(2)],
    [begin, file('a'), file('b'), file('a'), end(3)],
    [begin, file(''), end(1)],
    [begin, file('x'.repeat(5000)), end(1)],
  ]
  for (const parts of wrong) await t.rejects(read(parts), { code: 'INVALID_MESSAGE' }, JSON.stringify(parts.length))
})

t.test('bounds hold before anything is kept', async (t) => {
  const half = new Uint8Array(maxFileBytes / 2 + 1)
  await t.rejects(read([begin, file('a', half), file('a', half)]), { code: 'MESSAGE_TOO_LARGE' })
  const most = Array.from({ length: maxRoundBytes / maxFileBytes }, (_, i) =>
    file(`f${i}`, new Uint8Array(maxFileBytes)),
  )
  await t.rejects(read([begin, ...most, file('more', 'x')]), { code: 'MESSAGE_TOO_LARGE' })
  const many = Array.from({ length: maxFiles }, (_, i) => file(`f${i}`))
  t.equal((await read([begin, ...many, end(maxFiles)])).length, maxFiles)
  await t.rejects(read([begin, ...many, file('more'), end(maxFiles + 1)]), { code: 'INVALID_MESSAGE' })
  await t.rejects(read([begin, file('a', 'too much'), end(1)], 3), { code: 'MESSAGE_TOO_LARGE' })
})

t.test('a slow sender ends', async (t) => {
  const clock = new ManualClock()
  const { promise: never } = Promise.withResolvers<never>()
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield* sent([begin, file('a', new Uint8Array(64 * 1024))])
    await never
  }
  const received = new ReceivedFiles({ messages: slow(), room: () => undefined, clock })
  await received.begin(signal)
  const files = received.files(signal)
  await new Promise<void>((resolve) => setImmediate(resolve))
  t.strictSame(clock.waits, [11_000], '10 s, and a second for 64 KiB')
  clock.advance(11_000)
  await t.rejects(files, { code: 'DEADLINE_EXCEEDED' })
})
