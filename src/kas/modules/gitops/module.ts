import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { GroupTurns } from '../../../lib/group-turns.ts'
import { maxStateBytes } from '../../../proto/gitops/limits.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { AgentQuestions } from './agent-questions.ts'
import { ContainedCommits } from './contained-commits.ts'
import { driftEndpoint } from './drift-endpoint.ts'
import { cacheBounds, FileCache } from './file-cache.ts'
import { FollowedCommits } from './followed-commits.ts'
import { FollowedRefs } from './followed-refs.ts'
import { FreshPolls } from './fresh-polls.ts'
import { getObjectsMethod, type ObjectsToSynchronizeOptions, objectsToSynchronize } from './objects-to-synchronize.ts'
import { previewEndpoint } from './preview-endpoint.ts'
import { stateEndpoint, statesOfPeer } from './state-endpoint.ts'
import { States } from './states.ts'
import { pushMethod, pushStates } from './states-receiver.ts'

/** room for paths of usual length and 1,000 known blobs */
const maxMessageBytes = 256 * 1024
/** streams of an agent (`method_calls_of_agent`): 100 sources of two pods, while the leader changes */
const maxPerAgent = 250
/**
 * Room for 100 sources at once, each with 1,000 known blobs, and a round of most of them: a tenth of the event loop.
 */
const rate = { perSecond: 1000, burst: 5000, cost: { call: 1, message: 1, kib: 1 } }

/** Pushes of an agent (`method_calls_of_agent`): the leading pod keeps one open, two while the leader changes. */
const maxPushesPerAgent = 20
/** Room for the states of 100 sources at once, some KiB each; agentk waits 250 ms before it pushes changes. */
const pushRate = { perSecond: 400, burst: 2500, cost: { call: 1, message: 1, kib: 1 } }

/**
 * Bytes of the listings that a round keeps at once, with the longest paths: that of its folder, and that of a link's
 * target. Files follow after the listings were dropped.
 */
const maxListingsBytes = 25 * 1024 * 1024
/** rounds of one agent at once */
const maxRoundsOfAgent = 2
/** waiting rounds of the agents of one project (`waiting_rounds`) */
const maxWaitingRounds = 10_000

export interface GitopsOptions
  extends Pick<ObjectsToSynchronizeOptions, 'pollMs' | 'maxPaths' | 'maxFiles' | 'maxFileBytes' | 'maxTotalBytes'> {
  /** bytes of all running rounds; one round runs always */
  readonly roundsBytes: number
  /** bytes of files that are kept for later rounds */
  readonly keptBytes: number
}

/** Sends agents the files of projects. */
export function createGitops(host: KasHost, options: GitopsOptions): KasModule {
  const {
    directory,
    localDirectory,
    agentConfig,
    repositories,
    pushes,
    forward,
    serves,
    away,
    usage,
    tracer,
    clock,
    peers,
  } = host
  const log = host.log.child({ mod_name: 'gitops' })
  const turns = new GroupTurns<bigint, AgentId>({
    maxRunning: Math.max(1, Math.floor(options.roundsBytes / Math.max(options.maxTotalBytes, maxListingsBytes))),
    maxRunningOfSource: maxRoundsOfAgent,
    maxWaitingOfGroup: maxWaitingRounds,
    tooMany: () =>
      new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'waiting_rounds',
        limit: maxWaitingRounds,
        what: 'rounds of GitOps that wait',
      }),
  })
  const cache = new FileCache(cacheBounds(options))
  const sent = usage.counter('gitops_sync')
  const commits = new FollowedCommits(clock)
  const serve = objectsToSynchronize(
    {
      directory,
      repositories: repositories.trees,
      pushes,
      refs: new FollowedRefs(),
      commits,
      turns,
      cache,
      sent,
      tracer,
      clock,
      log,
    },
    options,
  )
  const states = new States(clock)
  const { trees } = repositories
  const polls = new FreshPolls({ repositories: trees, commits, agentConfig, peers, clock, log })
  const contained = new ContainedCommits({ repositories: trees, clock, log })
  const push = pushStates({ states, clock }, options)
  const questions = new AgentQuestions({ forward, serves, away, clock })
  return {
    name: 'gitops',
    features: ['gitops'], // sends only files that an agent lacks, and accepts states of sources
    agentMethods: {
      [getObjectsMethod]: { type: 'server_stream', patient: true, maxMessageBytes, maxPerAgent, rate, serve },
      [pushMethod]: {
        type: 'client_stream',
        patient: true,
        maxMessageBytes: maxStateBytes,
        maxPerAgent: maxPushesPerAgent,
        rate: pushRate,
        serve: push,
      },
    },
    replicaMethods: statesOfPeer({ states, commits, repositories: trees, contained, polls, agentConfig, clock }),
    endpoints: [
      stateEndpoint({
        states,
        commits,
        repositories: trees,
        contained,
        polls,
        agentConfig,
        serves,
        away,
        directory,
        peers,
        questions,
        clock,
      }),
      driftEndpoint(questions),
      previewEndpoint({ states, agentConfig, peers, clock, questions, localDirectory }, options),
    ],
    services: [
      {
        start: async () => undefined,
        stop: async () => {
          polls.stop()
          contained.stop()
          states.stop()
        },
      },
    ],
    status: () => [
      ['agents with states', states.agents],
      ['bytes of files kept', cache.bytes],
    ],
  }
}
