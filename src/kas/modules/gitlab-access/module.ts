import { gitlabAccessMethod } from '../../../proto/http/http-over-grpc.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { makeRequest } from './make-request.ts'

/** Agents call modules of GitLab. @returns undefined: there is no GitLab to call */
export function createGitlabAccess({ directory, log, clock }: KasHost): KasModule | undefined {
  const passToGitlab = directory.passToGitlab?.bind(directory)
  if (!passToGitlab) return undefined
  const serve = makeRequest({ passToGitlab, log, clock })
  return {
    name: 'gitlab access',
    agentMethods: { [gitlabAccessMethod]: { type: 'bidi_stream', patient: false, serve } },
  }
}
