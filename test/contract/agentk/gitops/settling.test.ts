import t from 'tap'
import type { FollowedDrift } from '../../../../src/agentk/modules/gitops/drift/follow-drift.ts'
import { KeptFiles } from '../../../../src/agentk/modules/gitops/files/kept-files.ts'
import type { FollowedHealth } from '../../../../src/agentk/modules/gitops/health/follow-health.ts'
import { ClusterKinds } from '../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { RoundInput } from '../../../../src/agentk/modules/gitops/reconcile.ts'
import { FollowMode } from '../../../../src/agentk/modules/gitops/sources/follow-mode.ts'
import { ReconcileQueue } from '../../../../src/agentk/modules/gitops/sources/reconcile-queue.ts'
import { SourceRunner } from '../../../../src/agentk/modules/gitops/sources/source-runner.ts'
import { StatusSink } from '../../../../src/agentk/modules/gitops/state/status-sink.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { maxRoundBytes } from '../../../../src/proto/gitops/limits.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { RecordedTracer } from '../../../support/recorded-tracer.ts'
import { kasOf, startSessions } from '../agent-side.ts'
import { listenAs } from '../fake-kas.ts'
import { ProjectKas } from './gitops-side.ts'

const noGuide = { pathOf: () => '' }

t.test('a commit is brought once more when what the pod before has sent has landed', async (t) => {
  const project = new ProjectKas(7n)
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, project.kas, 'grpc')}`)
  const clock = new ManualClock()
  const rounds: RoundInput[] = []
  /** times of the reports that a round has synced the source */
  const statuses = new Set<bigint>()
  const none = {
    ends: [],
    entries: new Map(),
    pruned: [],
    planDigest: '',
    awaitingApproval: [],
    reasons: new Map(),
    kinds: new ClusterKinds([]),
    orphans: [],
    notes: [],
  }
  const noDrift: FollowedDrift = {
    known: new Map(),
    mode: 'correct',
    unwatched: [],
    objects: 0,
    checkAll: async () => 0,
    values: async () => ({ kind: 'beingDeleted' }),
    judge: async () => ({ kind: 'write' }),
    manifest: async () => undefined,
    judgeAsked: async () => ({ kind: 'write' }),
    watch: () => undefined,
    roundBegins: () => undefined,
    roundEnds: () => undefined,
    settled: () => undefined,
  }
  const noHealth: FollowedHealth = {
    summary: {
      counts: { Healthy: 0, Progressing: 0, Degraded: 0, Suspended: 0, Missing: 0, Unknown: 0 },
      unread: 0,
      unhealthy: [],
      unlisted: [],
    },
    roundBegins: () => undefined,
    stepEnded: () => undefined,
    roundEnds: () => undefined,
    taken: () => undefined,
    seen: () => undefined,
    left: () => undefined,
  }
  const mode = new FollowMode(
    {
      kas: kasOf(sessions),
      files: new KeptFiles(maxRoundBytes, () => 1),
      rounds: {
        run: async (_, input) => {
          rounds.push(input)
          return { kind: 'done', ...none, isWaitingForOthers: false }
        },
        absentCame: async () => false,
        followDrift: () => noDrift,
        followHealth: () => noHealth,
      },
      sources: { named: () => undefined, refused: () => undefined },
      status: new StatusSink(clock, noGuide, [
        // the report of health before that of the round does not count
        {
          changed: ({ phase, comparedAtMs: at }) => phase === Phase.SYNCED && statuses.add(at),
          removed: () => undefined,
        },
      ]),
      metrics: { round: () => undefined, applied: () => undefined },
      tracer: new RecordedTracer(),
      log: capturedLog().log,
      clock,
      random: Math.random,
    },
    { block: {}, digest: '', agentId: 42n, ownProject: 'platform/shop', projectId: undefined },
  )
  const people = {
    directives: async () => ({ approved: '', isSuspended: false, resync: '', resynced: '', isForgotten: false }),
    useApproval: async () => undefined,
    resynced: () => undefined,
    onDirectives: () => () => undefined,
  }
  const runner = new SourceRunner({ queue: new ReconcileQueue({ clock, random: Math.random }), people }, mode)
  const ended = new AbortController()
  const run = runner.run(ended.signal)
  project.push({ 'a.yaml': '' })
  await eventually(() => statuses.size === 1)
  clock.advance(119_000)
  project.push({ 'a.yaml': 'b' })
  await eventually(() => statuses.size === 2)
  clock.advance(1000)
  await eventually(() => statuses.size === 3)
  t.strictSame(
    rounds.map(({ mayHaveCallsInFlight, commit }) => [mayHaveCallsInFlight, commit === project.commit]),
    [
      [true, false],
      [true, true],
      [false, true],
    ],
  )
  clock.advance(3600_000)
  ended.abort(new Error('the test is over'))
  await run
  t.equal(rounds.length, 3)
})
