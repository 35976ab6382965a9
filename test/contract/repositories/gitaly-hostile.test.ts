import { once } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { GetTreeEntriesResponseSchema, TreeEntry_EntryType } from '../../../src/proto/gen/gitaly_pb.ts'
import { gitalyAgent as agent, startGitalySide } from '../../support/gitaly/gitaly-side.ts'
import { framed, rawServer } from '../grpc/raw-peers.ts'
import { failure } from './repositories-suite.ts'

/** A hostile Gitaly, or hostile content that a user pushed: only the call itself fails. */

const signal = new AbortController().signal
const commit = 'a'.repeat(40) as CommitId
const unreadable = { code: 'REPOSITORY_FAILED' }
const grpc = { ':status': 200, 'content-type': 'application/grpc' }

/** Starts a Gitaly that answers each call by `answer`. @returns error of the trees, and the calls */
async function startRaw(t: Test, answer: (stream: ServerHttp2Stream) => void, callTimeoutMs = 30_000) {
  const { repositories, learn } = await startGitalySide(t, { repositories: { pollMs: 3_600_000, callTimeoutMs } })
  const closed: Promise<unknown>[] = []
  const port = await rawServer(t, (stream) => {
    closed.push(once(stream, 'close'))
    answer(stream)
  })
  learn({ address: `tcp://127.0.0.1:${port}` })
  const files = () => failure(repositories.files(agent, commit, '', signal))
  return { repositories, files, closed }
}

t.test('a packed answer of a gigabyte is unpacked to 4 MiB, and no further', async (t) => {
  const member = gzipSync(Buffer.alloc(16 << 20), { level: 9 })
  const gigabyte = Array(64).fill(member)
  const bombs: Record<string, Buffer> = {
    'as long as it says': Buffer.concat(gigabyte),
    'that says it is empty': Buffer.concat([...gigabyte, gzipSync('')]),
  }
  let packed: Uint8Array = Buffer.alloc(0)
  const { files, closed } = await startRaw(t, (stream) => {
    stream.respond({ ...grpc, 'grpc-encoding': 'gzip' })
    stream.write(framed(1, packed))
  })
  for (const [name, bomb] of Object.entries(bombs)) {
    t.ok(bomb.length < 2 << 20, `${bomb.length} bytes`)
    packed = bomb
    const message = /Gitaly at tcp:\S+: received message larger than max \(\d+ vs\. 4194304\)$/
    t.match(await files(), { ...unreadable, message }, name)
    await closed.at(-1) // the call has ended for Gitaly too
  }
})

t.test('an answer that trickles without an end has the time of a call', async (t) => {
  const entry = { type: TreeEntry_EntryType.TREE, mode: 0o040000, oid: commit, path: Buffer.from('a') }
  const trickles: Record<string, { begin: Buffer; more: Buffer }> = {
    'a message, byte by byte': { begin: framed(0, Buffer.alloc(0), 1_000_000), more: Buffer.alloc(1) },
    'a packed one': { begin: framed(1, gzipSync(''), 1_000_000), more: Buffer.alloc(1) },
    'messages that say nothing': { begin: Buffer.alloc(0), more: framed(0, Buffer.alloc(0)) },
    'folders, one by one': {
      begin: Buffer.alloc(0),
      more: framed(
        0,
        toBinary(GetTreeEntriesResponseSchema, create(GetTreeEntriesResponseSchema, { entries: [entry] })),
      ),
    },
  }
  let trickle: { begin: Uint8Array; more: Uint8Array } = { begin: Buffer.alloc(0), more: Buffer.alloc(0) }
  const { files, closed } = await startRaw(
    t,
    (stream) => {
      stream.respond({ ...grpc, 'grpc-encoding': 'gzip' })
      stream.write(trickle.begin)
      const timer = setInterval(() => stream.write(trickle.more), 10)
      stream.once('close', () => clearInterval(timer))
    },
    300,
  )
  for (const [name, bytes] of Object.entries(trickles)) {
    trickle = bytes
    t.match(await files(), { ...unreadable, message: /: no whole answer after 300 ms$/ }, name)
    await closed.at(-1)
  }
})

t.test('a path that leads elsewhere refuses its listing', async (t) => {
  let paths: readonly string[] = []
  const { repositories } = await startRaw(t, (stream) => {
    const entries = paths.map((path) => {
      return { type: TreeEntry_EntryType.BLOB, mode: 0o100644, oid: commit, path: Buffer.from(path) }
    })
    stream.respond(grpc, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.end(framed(0, toBinary(GetTreeEntriesResponseSchema, create(GetTreeEntriesResponseSchema, { entries }))))
  })
  const read = () => repositories.files(agent, commit, '', signal)
  paths = ['a.yaml', '../../etc/cron.d/x']
  t.match(await failure(read()), {
    code: 'MANIFESTS_REFUSED',
    message: /the path \.\.\/\.\.\/etc\/cron\.d\/x, which no file of a repository can have/,
  })
  paths = ['a.yaml', 'b.yaml']
  t.equal((await read()).length, 2, 'what is in order is read')
})
