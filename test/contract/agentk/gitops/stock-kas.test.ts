import { create, toBinary } from '@bufbuild/protobuf'
import { Registry } from 'prom-client'
import t from 'tap'
import type { Term } from '../../../../src/agentk/election/terms.ts'
import { KeptFiles } from '../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { followObjects, objectsMethod } from '../../../../src/agentk/modules/gitops/files/objects-stream.ts'
import { createGitops } from '../../../../src/agentk/modules/gitops/module.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import { AgentConfigurationSchema } from '../../../../src/proto/gen/agentcfg_pb.ts'
import {
  type ObjectsToSynchronizeRequest,
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
} from '../../../../src/proto/gen/gitops_pb.ts'
import { maxRoundBytes } from '../../../../src/proto/gitops/limits.ts'
import { readOne } from '../../../../src/proto/unary.ts'
import { eventually } from '../../../support/eventually.ts'
import { identities } from '../../../support/identities.ts'
import { RecordedTracer } from '../../../support/recorded-tracer.ts'
import { patience } from '../../../support/slowness.ts'
import { kasOf, silentLog, startSessions } from '../agent-side.ts'
import { FakeKas, listenAs } from '../fake-kas.ts'
import { setsFrom } from './sets-from.ts'

/** Our agentk with a kas that knows only the stock fields, as 16.5 does: without our block and without object ids. */

interface Commit {
  readonly id: string
  readonly files: Readonly<Record<string, string>>
}

/** A kas that answers each stream with the commit after the named one. After the last commit the stream waits. */
class StockKas {
  readonly kas = new FakeKas()
  readonly requests: ObjectsToSynchronizeRequest[] = []
  refusal: KasError | undefined

  constructor(commits: readonly Commit[]) {
    this.kas.handlers.set(objectsMethod, async (stream) => {
      const request = await readOne(ObjectsToSynchronizeRequestSchema, stream.messages)
      this.requests.push(request)
      if (this.refusal) throw this.refusal
      stream.sendMetadata({})
      const commit = commits[commits.findIndex(({ id }) => id === request.commitId) + 1]
      if (!commit) {
        await new Promise((_, reject) => stream.signal.addEventListener('abort', () => reject(stream.signal.reason)))
        return
      }
      const send = (message: object) =>
        stream.send(toBinary(ObjectsToSynchronizeResponseSchema, create(ObjectsToSynchronizeResponseSchema, message)))
      await send({ message: { case: 'header', value: { commitId: commit.id, projectId: 7n } } })
      for (const [source, text] of Object.entries(commit.files)) {
        for (const data of [text.slice(0, 2), text.slice(2)]) {
          await send({ message: { case: 'object', value: { source, data: Buffer.from(data) } } })
        }
      }
      await send({ message: { case: 'trailer', value: {} } })
    })
  }
}

t.test('each commit comes whole; nothing is taken for held', async (t) => {
  const one = { id: 'c1', files: { 'a.yaml': 'same', 'b.yaml': 'one' } }
  const two = { id: 'c2', files: { 'a.yaml': 'same', 'b.yaml': 'two' } }
  const stock = new StockKas([one, two])
  const { sets, problems } = await setsFrom(t, stock.kas)
  await eventually(() => stock.requests.length === 3)
  t.strictSame(
    sets.map(({ commit, files }) => ({
      id: commit,
      files: Object.fromEntries(files.map(({ path, data }) => [path, Buffer.from(data).toString()])),
    })),
    [one, two],
  )
  t.match(sets, [{ pushedAt: undefined }, { pushedAt: undefined }])
  t.strictSame(
    stock.requests.map(({ commitId, knownBlob }) => [commitId, knownBlob]),
    [
      ['', []],
      ['c1', []],
      ['c2', []],
    ],
  )
  t.strictSame(problems, [])
})

t.test('one that does not serve it any more: told, and asked again later', async (t) => {
  const stock = new StockKas([])
  stock.refusal = new KasError({ code: 'STATUS', grpc: Code.UNIMPLEMENTED, message: 'unknown service' })
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, stock.kas, 'grpc')}`)
  const told = Promise.withResolvers<KasError>()
  const stop = new AbortController()
  const following = followObjects(
    {
      kas: kasOf(sessions),
      files: new KeptFiles(maxRoundBytes, () => 1),
      onSet: () => t.fail('a set'),
      onProblem: told.resolve,
      onFollowing: () => undefined,
      clock: systemClock,
      random: () => 0,
    },
    { project: 'platform/shop', paths: [{ glob: '**' }] },
    stop.signal,
  )
  t.equal((await told.promise).grpcCode, Code.UNIMPLEMENTED)
  stop.abort(new Error('over'))
  await following
  t.equal(stock.requests.length, 1)
})

t.test('without our block sources rest: what stock sends of them starts nothing', async (t) => {
  const stock = new StockKas([{ id: 'c1', files: {} }])
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, stock.kas, 'grpc')}`)
  const sent = create(AgentConfigurationSchema, {
    agentId: 42n,
    projectPath: 'platform/clusters',
    gitops: { manifestProjects: [{ id: 'platform/shop', paths: [{ glob: '**' }] }] },
  })
  const listeners: ((configuration: typeof sent) => void)[] = []
  const untouched = new Proxy({}, { get: (_, name) => t.fail(`the API server is not asked: ${String(name)}`) })
  const configuration = {
    current: sent,
    onChange: (listener: (configuration: typeof sent) => void) => void listeners.push(listener),
    block: () => () => undefined,
  }
  const { lead } = createGitops(
    {
      api: untouched as never,
      identities: identities(),
      kas: kasOf(sessions),
      configuration,
      self: { meta: { podNamespace: 'gitops' } as never, product: '' },
      clock: systemClock,
      serverClock: systemClock,
      random: () => 0,
      register: new Registry(),
      tracer: new RecordedTracer(),
      log: () => silentLog,
    },
    { path: '' },
  )
  const term = new AbortController()
  const leading = lead?.({ signal: term.signal, holds: () => true } satisfies Term)
  for (const listener of listeners) listener(sent)
  await sessions.session(AbortSignal.timeout(patience(10_000)))
  term.abort(new Error('over'))
  await leading
  t.strictSame(stock.requests, [])
})
