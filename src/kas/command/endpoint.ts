import { readFile } from 'node:fs/promises'
import { delimiter } from 'node:path'
import { type ClusterSettings, loadKubeconfig, type Source } from '../../lib/kubeconfig.ts'
import { type CliIo, type CliValues, textOption, UsageError } from './command.ts'

/** Where kas is, and as whom it is asked. */
export interface Endpoint {
  /** `https://kas.example.com/k8s-proxy` */
  readonly url: URL
  readonly agentId: string
  readonly authorization: string
  readonly tls: {
    readonly ca?: string
    readonly servername?: string
    readonly rejectUnauthorized?: boolean
  }
}

/** What kas takes for a bearer token (doc/reference/tunnel-protocol.md 6.2). */
export const tokenPattern = /^(ci|pat):(\d{1,19}):(\S+)$/

/**
 * The kas of the kubeconfig that kubectl would take, whose token names the agent.
 *
 * @throws UsageError that says what to set
 */
export async function endpointOf(values: CliValues, env: CliIo['env']): Promise<Endpoint> {
  const given = textOption(values, 'kubeconfig')
  const files = given === undefined ? (env.KUBECONFIG ?? '').split(delimiter).filter(Boolean) : [given]
  if (files.length === 0) {
    throw new UsageError('which kas? Say --kubeconfig FILE or set KUBECONFIG; kas kubeconfig prints one')
  }
  const settings = await loadKubeconfig(files, {
    context: textOption(values, 'context') ?? (env.KUBE_CONTEXT || undefined), // as GitLab's jobs have it
  }).catch((cause: Error) => {
    throw new UsageError(cause.message, { cause })
  })
  const { agentId, authorization } = await credentialsOf(settings, textOption(values, 'agent'))
  const { ca, serverName, skipVerify } = settings
  return {
    url: kasUrl(settings.server),
    agentId,
    authorization,
    tls: {
      ...(ca ? { ca: await textOf(ca) } : {}),
      ...(serverName ? { servername: serverName } : {}),
      ...(skipVerify ? { rejectUnauthorized: false } : {}),
    },
  }
}

async function credentialsOf({ token }: ClusterSettings, agent: string | undefined) {
  const text = token ? (await textOf(token)).trim() : ''
  const [, type, agentOfToken = '', secret] = tokenPattern.exec(text) ?? []
  if (!type) {
    throw new UsageError('the token of the kubeconfig is none of kas: allowed is pat:<agent id>:<token> or ci:…')
  }
  if (agent !== undefined && !/^[1-9]\d{0,18}$/.test(agent)) {
    throw new UsageError(`--agent ${agent}: allowed is an agent's id, a whole number above zero`)
  }
  const agentId = agent ?? agentOfToken
  return { agentId, authorization: `Bearer ${type}:${agentId}:${secret}` }
}

export function kasUrl(server: string): URL {
  const url = new URL(server)
  if (url.protocol !== 'http:') url.protocol = 'https:'
  return url
}

/** @param path - below the prefix of kas: its own, or of the API server behind it; without a query */
export function urlBelow({ url }: Pick<Endpoint, 'url'>, path: string): URL {
  const below = new URL(url)
  below.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`
  return below
}

async function textOf(source: Source): Promise<string> {
  if ('text' in source) return source.text
  return readFile(source.file, 'utf8').catch((cause: Error) => {
    throw new UsageError(cause.message, { cause })
  })
}
