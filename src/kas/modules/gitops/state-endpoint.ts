import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import { payerOf } from '../../../call/caller.ts'
import { KasError } from '../../../lib/errors.ts'
import {
  Gitops,
  PollResponseSchema,
  SourceResponseSchema,
  StatesResponseSchema,
} from '../../../proto/gen/replica_gitops_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { OwnEndpoint, OwnRequest } from '../../own-endpoint.ts'
import { isCommitId } from '../../repositories/repositories.ts'
import type { AgentQuestions } from './agent-questions.ts'
import type { FreshPolls } from './fresh-polls.ts'
import { ownSource } from './preview-source.ts'
import {
  type AskedCommit,
  answerFor,
  noCommit,
  type OwnComponents,
  ownStates,
  type StateAnswer,
  type StateComponents,
} from './state-answer.ts'
import type { SeenNames, Subject } from './subjects.ts'

export interface EndpointComponents extends StateComponents {
  /** polls for callers that ask for the current state */
  readonly polls: Pick<FreshPolls, 'ask' | 'decide' | 'pollOwn'>
  readonly questions: Pick<AgentQuestions, 'review'>
}

/** Methods that peers call at this replica. */
export function statesOfPeer(components: OwnComponents & Pick<EndpointComponents, 'polls'>): UnaryMethods {
  const { polls } = components
  return unaryService(Gitops, {
    states: async ({ agentId, commit, caller }) => {
      const asked = { commit, caller: caller === '' ? `agent ${agentId}` : caller }
      return create(StatesResponseSchema, ownStates(components, agentId as AgentId, asked))
    },
    poll: async ({ agentId, decides }) => {
      if (decides) polls.decide(agentId as AgentId)
      else polls.pollOwn(agentId as AgentId)
      return create(PollResponseSchema, {})
    },
    source: async (request) => create(SourceResponseSchema, ownSource(components, request)),
  })
}

/**
 * Serves `GET <prefix>gitops/state`: the status of the agent's sources. It has the last report of its pod to any
 * replica, and the sources that the configuration names beside those (doc/guide/gitops.md). Concurrent requests share an
 * answer, and each caller sees the names of the objects that it may get.
 */
export function stateEndpoint(components: EndpointComponents): OwnEndpoint {
  const answers = new Map<string, Promise<StateAnswer>>()
  const nextAnswers = new Map<string, Promise<StateAnswer>>()
  const keyOf = (agentId: AgentId, { commit }: AskedCommit) => `${agentId} ${commit}`
  const answer = (agentId: AgentId, asked: AskedCommit) => {
    const key = keyOf(agentId, asked)
    const running = answers.get(key)
    if (running) return running
    const begun = answerFor(components, agentId, asked).finally(() => answers.delete(key))
    answers.set(key, begun)
    return begun
  }
  /** Begins an answer, or joins the next one: ages in a running one are older than the request. */
  const freshAnswer = (agentId: AgentId, asked: AskedCommit) => {
    components.polls.ask(agentId)
    const key = keyOf(agentId, asked)
    const running = answers.get(key)
    if (!running) return answer(agentId, asked)
    const next =
      nextAnswers.get(key) ??
      running
        .catch(() => undefined)
        .then(() => {
          nextAnswers.delete(key)
          return answer(agentId, asked)
        })
    nextAnswers.set(key, next)
    return next
  }
  return {
    path: '/gitops/state',
    methods: ['GET'],
    isLong: true,
    serve: async (request) => {
      const { agentId, caller, query } = request
      const isFresh = query?.get('fresh')?.[0] === 'true'
      const [commit = ''] = query?.get('commit') ?? []
      const asked = isFresh && isCommitId(commit) ? { commit, caller: payerOf(caller) } : noCommit
      const state = await (isFresh ? freshAnswer(agentId, asked) : answer(agentId, asked))
      const names = await namesFor(components, request, await state.subjects())
      return { status: 200, mediaType: 'application/json', body: await state.text(names) }
    },
  }
}

/** Asks the agent which objects the caller may get. Without an answer it sees no names. */
async function namesFor(
  { questions }: Pick<EndpointComponents, 'questions'>,
  request: OwnRequest,
  subjects: ReadonlyMap<string, Subject>,
): Promise<SeenNames> {
  if (subjects.size === 0) return { allowed: new Set(), problem: '' }
  try {
    const mayGet = await questions.review(request, [...subjects.values()])
    return { allowed: new Set([...subjects.keys()].filter((_, i) => mayGet[i])), problem: '' }
  } catch (error) {
    request.signal.throwIfAborted()
    return { allowed: new Set(), problem: KasError.from(error).message }
  }
}
