import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { AgentConfigs } from '../../../src/kas/agent-config/agent-configs.ts'
import { TokenWatches } from '../../../src/kas/directory/gitlab/token-watches.ts'
import { moduleSchemas } from '../../../src/kas/module-schemas.ts'
import { ConfigurationPosts } from '../../../src/kas/modules/configuration/configuration-posts.ts'
import { BranchWatch } from '../../../src/kas/repositories/branch-watch.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import type { TraceHeaders } from '../../../src/lib/tracing/tracer.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { RecordedTracer } from '../../support/recorded-tracer.ts'
import { patience } from '../../support/slowness.ts'

/** Work that callers share or that continues without them, with real timers: a timer keeps the context of its maker. */

const { log } = capturedLog()
const clock = systemClock
const random = () => 0
const agent = { id: 42n as AgentId, name: 'prod', project: { id: 7n, path: 'platform/clusters' } }

/** Serves a stream. `note` records the span that would be the parent of a request to GitLab. */
function start() {
  const tracer = new RecordedTracer()
  const stream = tracer.begin('stream', { kind: 'server' })
  const parents: (TraceHeaders | undefined)[] = []
  return {
    stream,
    parents,
    within: <T>(work: () => T) => tracer.within(stream, work),
    note: () => void parents.push(tracer.current),
    noted: (count: number) =>
      eventually(() => {
        if (parents.length < count) throw new Error(`${parents.length} of ${count}`)
      }),
  }
}

t.test('looks at a branch, and polls after the stream that began them', async (t) => {
  const { stream, parents, within, note, noted } = start()
  const poll = async () => {
    note()
    return 'one' as CommitId
  }
  const branch = new BranchWatch({ poll, clock, log, random }, { pollMs: 1, maxBackoffMs: 1 })
  t.teardown(() => branch.stop())
  await within(async () => {
    note()
    branch.onMove(() => undefined)
    await branch.head(AbortSignal.timeout(patience(10_000)))
  })
  stream.end()
  await noted(4)
  t.strictSame(parents.slice(0, 4), [stream.headers, undefined, undefined, undefined])
})

t.test('reads of a configuration, and those after one that failed', async (t) => {
  const { parents, within, note, noted } = start()
  const repositories = {
    head: async () => {
      note()
      throw new KasError({ code: 'REPOSITORY_FAILED', detail: 'it is away' })
    },
    hurry: () => undefined,
    seenAt: () => undefined,
    lastPoll: () => undefined,
    file: async () => undefined,
    mayHave: async () => false,
    onMove: () => () => undefined,
    pollAfterNotice: async () => undefined,
    pollAndReport: async () => undefined,
  }
  const configurations = new AgentConfigs({ schemas: moduleSchemas, repositories, log }, { retryMs: [1, 1] })
  t.teardown(() => configurations.stop())
  await within(() => t.rejects(configurations.newest(agent, AbortSignal.timeout(patience(10_000)))))
  await noted(3)
  t.strictSame(parents.slice(0, 3), [undefined, undefined, undefined])
})

t.test('posts of a configuration, and their repeats', async (t) => {
  const { stream, parents, within, note, noted } = start()
  const configuration = { file: {}, raw: {}, warnings: [] } as never
  const newest = async () => ({ commit: 'one' as CommitId, configuration, seenAt: clock.now(), since: 0 })
  const takeConfiguration = async () => {
    note()
    throw new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
  }
  const onChange = () => () => undefined
  const posts = new ConfigurationPosts(
    {
      agentConfig: { newest, refreshed: newest, onChange },
      gitlab: { takeConfiguration },
      leads: { leads: () => true, onChange, passOn: () => undefined },
      clock,
      log,
    },
    { retryMs: [1, 1] },
  )
  t.teardown(() => posts.stop())
  within(() => posts.follow(agent))
  stream.end()
  await noted(3)
  t.strictSame(parents.slice(0, 3), [undefined, undefined, undefined])
})

t.test('questions about a token that is held', async (t) => {
  const { parents, within, note, noted } = start()
  const watches = new TokenWatches({ clock, random, ask: async () => note(), keptMs: () => 1 })
  t.teardown(() => watches.stop())
  within(() => watches.watch('token'))
  await noted(3)
  t.strictSame(parents.slice(0, 3), [undefined, undefined, undefined])
})
