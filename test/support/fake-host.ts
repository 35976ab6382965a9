import { Registry } from 'prom-client'
import { noUsage } from '../../src/kas/directory/usage.ts'
import type { KasHost } from '../../src/kas/module.ts'
import { Leads } from '../../src/kas/peers/leads.ts'
import { noPeers } from '../../src/kas/peers/peers.ts'
import { LocalPushes } from '../../src/kas/repositories/local-pushes.ts'
import { noTracer } from '../../src/lib/tracing/tracer.ts'
import { capturedLog } from './captured-log.ts'
import { ManualClock } from './manual-clock.ts'

const notAsked = () => Promise.reject(new Error('not asked here'))

export const bareDirectory: KasHost['directory'] = {
  agentByToken: notAsked,
  grantJob: notAsked,
  grantUser: notAsked,
  readsProject: notAsked,
  readableProject: notAsked,
  readHint: (_, project) => `let the agent read ${project}`,
  onChange: () => () => undefined,
}

export const bareGitlab: NonNullable<KasHost['gitlab']> = {
  watchToken: () => () => undefined,
  tokenAnswers: {
    hashes: () => [],
    of: () => undefined,
    onAnswer: () => () => undefined,
    learn: () => undefined,
  },
  takeConfiguration: notAsked,
  passToGitlab: notAsked,
}

/** Host of a module in a replica that is alone, with no data. */
export function fakeHost(overrides: Partial<KasHost> = {}): KasHost {
  const { log } = capturedLog()
  const clock = new ManualClock()
  const trees = {
    head: async () => undefined,
    onMove: () => () => undefined,
    seenAt: () => undefined,
    lastPoll: () => undefined,
    pollAndReport: async () => undefined,
    files: async () => [],
    blobs: async () => [],
    contains: async () => false,
  }
  const repositories = { pollAfterNotice: async () => undefined, onFound: () => () => undefined, trees }
  return {
    directory: bareDirectory,
    gitlab: undefined,
    localDirectory: undefined,
    agentConfig: {
      newest: async () => undefined,
      followed: () => undefined,
      allFollowed: () => [],
      refreshed: async () => undefined,
      onChange: () => () => undefined,
      file: async () => undefined,
    },
    repositories,
    pushes: new LocalPushes({ repositories, log }),
    registrations: undefined,
    peers: noPeers,
    leads: new Leads({ clock, membership: undefined, peers: noPeers }),
    forward: notAsked,
    serves: () => undefined,
    away: () => undefined,
    usage: noUsage,
    tracer: noTracer,
    clock,
    register: new Registry(),
    log,
    ...overrides,
  }
}

/** Parts of the state of GitOps for a replica that polls no repository; each caller may get all objects. */
export const unpolled = {
  questions: { review: async (_: unknown, subjects: readonly unknown[]) => subjects.map(() => true) },
  repositories: { lastPoll: () => undefined },
  contained: { find: () => undefined },
  polls: { ask: () => undefined, decide: () => undefined, pollOwn: () => undefined },
}
