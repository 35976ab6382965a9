import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { objectsMethod } from '../../../../src/agentk/modules/gitops/files/objects-stream.ts'
import {
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
} from '../../../../src/proto/gen/gitops_pb.ts'
import { maxFileBytes } from '../../../../src/proto/gitops/limits.ts'
import { readOne } from '../../../../src/proto/unary.ts'
import { eventually } from '../../../support/eventually.ts'
import { FakeKas } from '../fake-kas.ts'
import { setsFrom } from './sets-from.ts'

/** Sets of files that an agent makes from the messages of kas. */

type Message = { case: 'header' | 'object' | 'trailer'; value: object }
const header = (commitId = 'c1', more = {}): Message => ({
  case: 'header',
  value: { commitId, projectId: 7n, ...more },
})
const object = (source: string, data: string | Uint8Array, more = {}): Message => ({
  case: 'object',
  value: { source, data: Buffer.from(data), ...more },
})
const trailer: Message = { case: 'trailer', value: {} }

/** @param streams - answers of each stream; the last stream stays open */
async function follow(t: Test, ...streams: readonly (readonly Message[])[]) {
  const kas = new FakeKas()
  const requests: { commitId: string; knownBranch: string; knownBlob: Uint8Array[] }[] = []
  kas.handlers.set(objectsMethod, async (stream) => {
    requests.push(await readOne(ObjectsToSynchronizeRequestSchema, stream.messages))
    stream.sendMetadata({})
    const answer = streams[requests.length - 1]
    if (!answer) {
      await new Promise((_, reject) =>
        stream.signal.addEventListener('abort', () => reject(stream.signal.reason as Error)),
      )
    }
    for (const message of answer ?? []) {
      const response = create(ObjectsToSynchronizeResponseSchema, { message: message as never })
      await stream.send(toBinary(ObjectsToSynchronizeResponseSchema, response))
    }
  })
  const { sets, problems } = await setsFrom(t, kas)
  return { sets, problems, requests }
}

t.test('a file in pieces, an empty one, and one that is held', async (t) => {
  const blob = Buffer.alloc(20, 7)
  const { sets, requests } = await follow(
    t,
    [
      header('c1', { branch: 'main' }),
      object('a.yaml', 'on', { blob }),
      object('a.yaml', 'e'),
      object('empty.yaml', ''),
      trailer,
    ],
    [header('c2', { ageMs: 5 }), object('moved.yaml', '', { blob, known: true }), trailer],
  )
  await eventually(() => requests.length === 3)
  const texts = sets.map(({ files }) => files.map(({ path, data }) => [path, Buffer.from(data).toString()]))
  t.strictSame(texts, [
    [
      ['a.yaml', 'one'],
      ['empty.yaml', ''],
    ],
    [['moved.yaml', 'one']],
  ])
  t.match(sets, [
    { commit: 'c1', branch: 'main', projectId: 7n, pushedAt: undefined },
    { commit: 'c2', pushedAt: Number },
  ])
  t.strictSame(
    requests.map(({ commitId, knownBranch, knownBlob }) => [commitId, knownBranch, knownBlob.length]),
    [
      ['', '', 0],
      ['c1', 'main', 1],
      ['c2', '', 1],
    ],
  )
})

t.test('a stream that ends before its trailer is no set', async (t) => {
  const { sets, requests } = await follow(t, [header(), object('a.yaml', 'one')], [header('c2'), trailer])
  await eventually(() => requests.length === 3)
  t.match(sets, [{ commit: 'c2', files: [] }])
})

const bad: [what: string, messages: readonly Message[], text: RegExp][] = [
  ['no header', [object('a', 'x')], /object out of order/],
  ['two headers', [header(), header()], /header out of order/],
  ['a header without a commit', [header('')], /without a commit/],
  ['an object behind the trailer', [header(), trailer, object('a', 'x')], /object out of order/],
  [
    'a held file that is not held',
    [header(), object('a', '', { blob: Buffer.alloc(20), known: true })],
    /a is taken for known/,
  ],
  [
    'more than 1,000 files',
    [header(), ...Array.from({ length: 1001 }, (_, i) => object(`${i}`, ''))],
    /more than 1000/,
  ],
  [
    'a file that is too large',
    [header(), ...Array.from({ length: 6 }, () => object('a', Buffer.alloc(maxFileBytes / 5)))],
    /larger than max/,
  ],
  [
    'files that are too large together',
    [header(), ...Array.from({ length: 21 }, (_, i) => object(`${i}`, Buffer.alloc(1024 * 1024)))],
    /larger than max/,
  ],
]
for (const [what, messages, text] of bad) {
  t.test(`no set: ${what}`, async (t) => {
    const { sets, problems } = await follow(t, messages)
    await eventually(() => problems.length === 1)
    t.match(problems[0]?.message, text)
    t.strictSame(sets, [])
  })
}
