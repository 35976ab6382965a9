import { gitlabAccessMethod } from '../../../proto/http/http-over-grpc.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { makeRequest } from './make-request.ts'

/**
 * Rate of the agent's messages. GitLab reads the body as fast as this permits: 12 MiB a second, in messages of 16 KiB,
 * after 100 MiB.
 */
const rate = { perSecond: 2000, burst: 20_000, cost: { call: 5, message: 1, kib: 0.1 } }

/** Lets agents call modules of GitLab. @returns undefined: there is no GitLab */
export function createGitlabAccess({ gitlab, log, clock }: KasHost): KasModule | undefined {
  if (!gitlab) return undefined
  const serve = makeRequest({ gitlab, log, clock })
  return {
    name: 'gitlab access',
    agentMethods: { [gitlabAccessMethod]: { type: 'bidi_stream', patient: false, rate, serve } },
  }
}
