import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { Phase, PhaseSchema, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import { phaseWord } from '../../../../proto/gitops/source-phase.ts'
import type { StatusReader } from './status-sink.ts'

export interface GitopsMetrics extends StatusReader {
  apiCall(lane: string): void
  /** Counts a round by the phase in which it has ended. */
  round(phase: Phase): void
  /** Records the time from a push until its commit was applied completely. */
  applied(seconds: number): void
}

/** Phases in which a round may end. */
const endings = [Phase.SYNCED, Phase.FAILING, Phase.REFUSED, Phase.APPROVAL, Phase.PAUSED] as const

/** Verdicts on objects that are not healthy. A suspended one is as somebody wants it. */
export const verdicts = ['degraded', 'missing', 'progressing', 'unknown'] as const

export function createGitopsMetrics(register: Registry): GitopsMetrics {
  const registers = [register]
  const calls = new Counter({
    name: 'agentk_gitops_api_calls_total',
    help: 'Calls to the API server that GitOps has made',
    labelNames: ['lane'],
    registers,
  })
  const rounds = new Counter({
    name: 'agentk_gitops_rounds_total',
    help: 'Commits that were brought to the cluster, or tried to, by how that ended',
    labelNames: ['result'],
    registers,
  })
  for (const phase of endings) rounds.inc({ result: resultOf(phase) }, 0)
  const pushToApplied = new Histogram({
    name: 'agentk_gitops_push_to_applied_seconds',
    help: 'Time from a push, as kas was notified of it, until all of its commit was applied and pruned',
    buckets: [0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800],
    registers,
  })
  const objects = new Gauge({
    name: 'agentk_gitops_objects',
    help: 'Objects that a source wants',
    labelNames: ['source'],
    registers,
  })
  const survivors = new Gauge({
    name: 'agentk_gitops_prune_survivors',
    help: 'Objects that have left a source and are still in the cluster',
    labelNames: ['source'],
    registers,
  })
  const drifted = new Gauge({
    name: 'agentk_gitops_drifted_objects',
    help: 'Objects that differ from Git since they were applied',
    labelNames: ['source'],
    registers,
  })
  const notCompared = new Gauge({
    name: 'agentk_gitops_not_compared_objects',
    help: 'Objects that the API server refuses to compare with Git',
    labelNames: ['source'],
    registers,
  })
  const unhealthy = new Gauge({
    name: 'agentk_gitops_unhealthy_objects',
    help: 'Objects of a source that are not healthy, by verdict',
    labelNames: ['source', 'verdict'],
    registers,
  })
  const setHealth = ({ source, health }: SourceState, isInRound: boolean) => {
    if (isInRound && health && health.unread > 0) return // the round has not come to them yet
    for (const verdict of verdicts) {
      if (health) unhealthy.set({ source, verdict }, health[verdict])
      else unhealthy.remove({ source, verdict })
    }
  }
  return {
    apiCall: (lane) => calls.inc({ lane }),
    round: (phase) => rounds.inc({ result: resultOf(phase) }),
    applied: (seconds) => pushToApplied.observe(seconds),
    changed: (state) => {
      const { source, counts } = state
      const isInRound = ['APPLYING', 'PRUNING'].includes(phaseWord(state))
      setHealth(state, isInRound)
      if (isInRound) return // the counts begin at zero
      objects.set({ source }, counts?.objects ?? 0)
      survivors.set({ source }, counts?.survivors ?? 0)
      drifted.set({ source }, counts?.drifted ?? 0)
      notCompared.set({ source }, counts?.notCompared ?? 0)
    },
    removed: (source) => {
      objects.remove({ source })
      survivors.remove({ source })
      drifted.remove({ source })
      notCompared.remove({ source })
      for (const verdict of verdicts) unhealthy.remove({ source, verdict })
    },
  }
}

/** Returns the label of a round's end: `synced`, `failing`. */
export function resultOf(phase: Phase): string {
  return (PhaseSchema.value[phase]?.name ?? 'other').toLowerCase()
}
