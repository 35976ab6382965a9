import type { GitlabClient } from './gitlab-client.ts'
import type { PassedAnswer } from './passage.ts'

export interface ModuleRequest {
  readonly method: string
  /** `/<module>/<path>?<query>`, encoded */
  readonly target: string
  /** name, value, name, value */
  readonly headers: readonly string[]
  /** the agent's, by which GitLab knows it */
  readonly token: string
  readonly contentLength?: number
  readonly body?: AsyncIterable<Uint8Array>
}

export interface ModuleRequestsComponents {
  readonly client: Pick<GitlabClient, 'pass'>
  /** headers by which GitLab knows an agent */
  readonly agentHeaders: (token: string) => Readonly<Record<string, string>>
}

export type PassToGitlab = (
  request: ModuleRequest,
  take: (answer: PassedAnswer) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>

const modulesPath = '/internal/kubernetes/modules'

/**
 * Makes agents' requests to GitLab's own modules, of which kas knows nothing (doc/reference/tunnel-protocol.md 5.3).
 */
export function moduleRequests({ client, agentHeaders }: ModuleRequestsComponents): PassToGitlab {
  return async ({ method, target, headers, token, contentLength, body }, take, signal) => {
    const length = contentLength === undefined ? [] : ['Content-Length', String(contentLength)]
    const passage = {
      method,
      path: modulesPath,
      target,
      headers: [...headers, ...Object.entries(agentHeaders(token)).flat(), ...length],
      ...(body ? { body } : {}),
      lane: 'modules' as const,
    }
    await client.pass(passage, take, signal)
  }
}
