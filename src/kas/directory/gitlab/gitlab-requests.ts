import type { Directory } from '../directory.ts'
import type { GitlabClient } from './gitlab-client.ts'

export interface GitlabRequestsComponents {
  readonly client: Pick<GitlabClient, 'pass'>
  /** headers by which GitLab knows an agent */
  readonly agentHeaders: (token: string) => Readonly<Record<string, string>>
}

const modulesPath = '/internal/kubernetes/modules'

/**
 * Makes agents' requests to GitLab's own modules, of which kas knows nothing (doc/reference/tunnel-protocol.md 5.3).
 */
export function gitlabRequests({
  client,
  agentHeaders,
}: GitlabRequestsComponents): NonNullable<Directory['passToGitlab']> {
  return async ({ method, target, headers, token, contentLength, body }, take, signal) => {
    const length = contentLength === undefined ? [] : ['Content-Length', String(contentLength)]
    const passage = {
      method,
      path: modulesPath,
      target,
      headers: [...headers, ...Object.entries(agentHeaders(token)).flat(), ...length],
      body,
      queue: 'modules' as const,
    }
    await client.pass(passage, take, signal)
  }
}
