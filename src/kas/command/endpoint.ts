import { readFile } from 'node:fs/promises'
import { delimiter } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { type ClusterSettings, ForeignCredentials, loadKubeconfig, type Source } from '../../lib/kubeconfig.ts'
import { printable } from '../../lib/printable.ts'
import { type CliIo, type CliValues, type CommandContext, textOption, UsageError } from './command.ts'
import { lastingReason, type Place } from './reach/unreached.ts'

/**
 * Address of kas (`https://kas.example.com/k8s-proxy`), with the caller's credentials, and with the command's way to
 * wait.
 */
export interface Endpoint extends Place {
  readonly clock: Clock
  /** Prints on stderr what the command waits for, each text once. */
  readonly warn: (text: string) => void
  readonly agentId: string
  readonly authorization: string
  readonly tls: {
    readonly ca?: string
    readonly servername?: string
    readonly rejectUnauthorized?: boolean
  }
}

/** bound of texts that a command prints while it waits */
const maxWarnings = 100

/** Form of a bearer token for kas (doc/reference/tunnel-protocol.md 6.2). */
export const tokenPattern = /^(ci|pat):(\d{1,19}):(\S+)$/

/**
 * Returns kas' endpoint from the kubeconfig that kubectl would use, whose token names the agent.
 *
 * @throws UsageError that says what to set
 */
export async function endpointOf(values: CliValues, context: Pick<CommandContext, 'io' | 'clock'>): Promise<Endpoint> {
  const files = filesOf(values, context.io)
  if (files.length === 0) {
    throw new UsageError('which kas? Say --kubeconfig FILE or set KUBECONFIG; kas kubeconfig prints one')
  }
  const settings = await settingsOf(files, values, context.io)
  const named = namedText(files, settings.context)
  const { agentId, authorization } = await credentialsOf(settings, textOption(values, 'agent'), named)
  const { ca, serverName, skipVerify } = settings
  return {
    ...placeOf(settings.server, printable(named), context),
    agentId,
    authorization,
    tls: {
      ...(ca ? { ca: await textOf(ca) } : {}),
      ...(serverName ? { servername: serverName } : {}),
      ...(skipVerify ? { rejectUnauthorized: false } : {}),
    },
  }
}

/**
 * Returns the namespace of the context.
 *
 * @throws UsageError with the fault of the kubeconfig
 */
export async function namespaceOf(values: CliValues, io: Pick<CliIo, 'env'>): Promise<string | undefined> {
  const files = filesOf(values, io)
  return files.length === 0 ? undefined : (await settingsOf(files, values, io)).namespace
}

const namedText = (files: readonly string[], context: string | undefined) =>
  [files.join(delimiter), ...(context ? [`context ${context}`] : [])].join(', ')

function filesOf(values: CliValues, { env }: Pick<CliIo, 'env'>): string[] {
  const given = textOption(values, 'kubeconfig')
  return given === undefined ? (env.KUBECONFIG ?? '').split(delimiter).filter(Boolean) : [given]
}

function settingsOf(files: readonly string[], values: CliValues, { env }: Pick<CliIo, 'env'>) {
  // the variable of GitLab's jobs
  const context = textOption(values, 'context') ?? (env.KUBE_CONTEXT || undefined)
  return loadKubeconfig(files, { context }).catch((cause: Error) => {
    const text =
      cause instanceof ForeignCredentials
        ? `${namedText(files, cause.context)}, is no kubeconfig of kas: ${cause.message}. kas kubeconfig makes one`
        : cause.message
    throw new UsageError(text, { cause })
  })
}

const proxyVariables = ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy', 'HTTP_PROXY', 'http_proxy']

/**
 * Returns the part of an endpoint that depends on the server.
 *
 * @param named - source of the address
 * @throws UsageError
 */
export function placeOf(
  server: string,
  named: string,
  { io, clock }: Pick<CommandContext, 'io' | 'clock'>,
): Pick<Endpoint, 'url' | 'named' | 'proxy' | 'clock' | 'warn'> {
  const said = new Set<string>()
  const warn = (text: string) => {
    const reason = lastingReason(text)
    if (said.has(reason) || said.size >= maxWarnings) return
    said.add(reason)
    io.stderr.write(`kas: ${printable(text)}\n`)
  }
  const proxy = proxyVariables.find((name) => io.env[name])
  return { url: kasUrl(server, named), named, proxy, clock, warn }
}

async function credentialsOf({ token }: ClusterSettings, agent: string | undefined, named: string) {
  const text = token ? (await textOf(token)).trim() : ''
  const [, type, agentOfToken = '', secret] = tokenPattern.exec(text) ?? []
  if (!type) {
    throw new UsageError(
      `${named}, is no kubeconfig of kas: its token is not pat:<agent id>:<token> or ci:<agent id>:<token>. kas kubeconfig makes one`,
    )
  }
  if (agent !== undefined && !/^[1-9]\d{0,18}$/.test(agent)) {
    throw new UsageError(`--agent ${agent}: allowed is an agent's id, a whole number above zero; kas agents lists them`)
  }
  const agentId = agent ?? agentOfToken
  return { agentId, authorization: `Bearer ${type}:${agentId}:${secret}` }
}

/** @throws UsageError */
function kasUrl(server: string, named: string): URL {
  if (!URL.canParse(server)) throw new UsageError(`${named}: the server ${printable(server)} is no URL`)
  const url = new URL(server)
  if (url.protocol !== 'http:') url.protocol = 'https:'
  return url
}

/** @param path - path below the prefix of kas, without a query: kas' own, or of the API server behind it */
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
