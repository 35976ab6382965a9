import { readFileSync } from 'node:fs'
import type { KubeconfigFlags } from '../../lib/kubeconfig.ts'
import type { LogLevel } from '../../lib/log.ts'
import { isLogFormat, type LogFormat, logFormats } from '../../lib/log-format.ts'
import { WatchedFile } from '../../lib/watched-file.ts'
import { type MayImpersonate, parseCallersMayImpersonate, parseMayImpersonate } from '../cluster/may-impersonate.ts'
import { type KasAddress, parseKasAddress } from '../tunnels/kas-address.ts'
import { type Flags, UsageError } from './flags.ts'
import { readTracing, type TracingSettings } from './tracing.ts'

export interface Config {
  readonly kas: {
    readonly address: KasAddress
    readonly caFile: string | undefined
    readonly serverName: string | undefined
    readonly skipVerify: boolean
    readonly headers: readonly (readonly [name: string, value: string])[]
    /** hosts of kas' replicas that agentk accepts, besides hosts at or below that of `address` */
    readonly allowHome: readonly string[]
  }
  /** the agent's token as it is now */
  readonly token: () => string
  readonly pod: { readonly namespace: string; readonly name: string }
  readonly observability: {
    readonly listen: ListenAddress
    /** text of `--observability-listen-address` */
    readonly address: string
    readonly certificate: { readonly certificateFile: string; readonly keyFile: string } | undefined
  }
  /** undefined: nothing is traced */
  readonly tracing: TracingSettings | undefined
  readonly cluster: KubeconfigFlags
  readonly mayImpersonate: MayImpersonate
  /** token file of the account with which views list and watch; undefined: agentk's own account */
  readonly viewsTokenFile: string | undefined
  readonly log: { readonly level: LogLevel; readonly format: LogFormat }
  /** environment for proxies, KUBECONFIG and the pod's service account */
  readonly env: NodeJS.ProcessEnv
}

/** Address in the form that `listen` of node:net takes. */
type ListenAddress = { readonly host?: string; readonly port: number } | { readonly path: string }

const defaultObservabilityAddress = ':8080'
const logLevels: readonly string[] = ['debug', 'info', 'warn', 'error']

/** @throws UsageError that says what to change */
export function readConfig(flags: Flags, env: NodeJS.ProcessEnv): Config {
  const logLevel = env.LOG_LEVEL || 'info'
  if (!logLevels.includes(logLevel))
    throw new UsageError(`LOG_LEVEL is "${logLevel}", allowed: ${logLevels.join(', ')}`)
  return {
    kas: readKas(flags),
    token: readToken(flags, env),
    pod: { namespace: required(env, 'POD_NAMESPACE'), name: required(env, 'POD_NAME') },
    observability: readObservability(flags),
    tracing: readTracing(env),
    cluster: readCluster(flags),
    mayImpersonate: readMayImpersonate(flags),
    viewsTokenFile: readViewsToken(flags),
    log: { level: logLevel as LogLevel, format: readLogFormat(flags) },
    env,
  }
}

function readLogFormat({ 'log-format': format = 'json' }: Flags): LogFormat {
  if (isLogFormat(format)) return format
  throw new UsageError(`--log-format is "${format}", allowed: ${logFormats.join(', ')}`)
}

function readKas(flags: Flags): Config['kas'] {
  const text = flags['kas-address']
  if (!text) throw new UsageError('--kas-address is missing, such as wss://kas.example.com/-/kubernetes-agent/')
  const caFile = flags['kas-ca-cert-file'] ?? flags['ca-cert-file']
  if (caFile) readable(caFile, '--kas-ca-cert-file')
  try {
    return {
      address: parseKasAddress(text),
      caFile,
      serverName: flags['kas-tls-server-name'] || undefined,
      skipVerify: flags['kas-insecure-skip-tls-verify'] ?? false,
      headers: (flags['kas-header'] ?? []).map(readHeader),
      allowHome: (flags['kas-allow-home'] ?? []).map(readHost),
    }
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error })
  }
}

/** Reads `Name: value`. No error shows the value, which may be a secret. */
function readHeader(text: string): readonly [string, string] {
  const [, name, value] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*:\s*(.*?)\s*$/.exec(text) ?? []
  if (name === undefined || value === undefined || /[^\t\x20-\x7e\x80-\xff]/.test(value)) {
    throw new Error('--kas-header must be "Name: value"')
  }
  return [name, value]
}

function readHost(text: string): string {
  const host = text.toLowerCase()
  if (!/^[0-9a-z]([-.0-9a-z]*[0-9a-z])?$/.test(host))
    throw new Error(`--kas-allow-home "${text}": expected a host name`)
  return host
}

function readToken(flags: Flags, env: NodeJS.ProcessEnv): () => string {
  const path = flags['token-file']
  const text = env.AGENTK_TOKEN
  if (path && text) throw new UsageError('--token-file and AGENTK_TOKEN are both set: set one of them')
  if (path) {
    readable(path, '--token-file')
    const file = new WatchedFile(path)
    return () => file.text().replace(/\r?\n$/, '')
  }
  if (!text) throw new UsageError('the agent token is missing: set --token-file or AGENTK_TOKEN')
  return () => text
}

function readViewsToken(flags: Flags): string | undefined {
  const file = flags['views-token-file']
  if (file) readable(file, '--views-token-file')
  return file || undefined
}

function readObservability(flags: Flags): Config['observability'] {
  const network = flags['observability-listen-network'] ?? 'tcp'
  const address = flags['observability-listen-address'] ?? defaultObservabilityAddress
  const certificateFile = flags['observability-cert-file']
  const keyFile = flags['observability-key-file']
  if (!certificateFile !== !keyFile) {
    throw new UsageError('--observability-cert-file and --observability-key-file go together')
  }
  const certificate = certificateFile && keyFile ? { certificateFile, keyFile } : undefined
  return { listen: readListenAddress(network, address), address, certificate }
}

/** @param address - `:8080`, `127.0.0.1:8080`, `[::1]:8080`, or a path for `unix` */
export function readListenAddress(network: string, address: string): ListenAddress {
  if (network === 'unix') return { path: address }
  if (!['tcp', 'tcp4', 'tcp6'].includes(network)) {
    throw new UsageError(`--observability-listen-network is "${network}", allowed: tcp, tcp4, tcp6, unix`)
  }
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(address) ?? []
  if (!port || Number(port) > 65_535) {
    throw new UsageError(`--observability-listen-address is "${address}", expected host:port`)
  }
  const bare = host.replace(/^\[|\]$/g, '')
  const any = { tcp: '', tcp4: '0.0.0.0', tcp6: '::' }[network] as string
  return bare || any ? { host: bare || any, port: Number(port) } : { port: Number(port) }
}

function readCluster(flags: Flags): KubeconfigFlags {
  const { kubeconfig, context, cluster, user, server, token, as } = flags
  return {
    kubeconfig,
    context,
    cluster,
    user,
    server,
    token,
    as,
    certificateAuthority: flags['certificate-authority'],
    clientCertificate: flags['client-certificate'],
    clientKey: flags['client-key'],
    insecureSkipTlsVerify: flags['insecure-skip-tls-verify'],
    tlsServerName: flags['tls-server-name'],
    asGroup: flags['as-group'],
    asUid: flags['as-uid'],
  }
}

function readMayImpersonate(flags: Flags): MayImpersonate {
  return {
    callers: readEntries(flags, 'callers-may-impersonate', parseCallersMayImpersonate),
    kas: readEntries(flags, 'may-impersonate', parseMayImpersonate),
  }
}

function readEntries<T>(
  flags: Flags,
  name: 'may-impersonate' | 'callers-may-impersonate',
  parse: (entries: readonly string[]) => T,
): T {
  try {
    return parse(flags[name] ?? [])
  } catch (error) {
    throw new UsageError(`--${name} ${(error as Error).message}`, { cause: error })
  }
}

function required(env: NodeJS.ProcessEnv, name: 'POD_NAMESPACE' | 'POD_NAME'): string {
  const value = env[name]
  if (!value) {
    const [field, elsewhere] =
      name === 'POD_NAME'
        ? ['metadata.name', 'to a name that no other agentk of this agent has']
        : ['metadata.namespace', 'to a Namespace that the cluster has, where agentk keeps its Lease, such as default']
    const advice = `in a pod's manifest set it by valueFrom: { fieldRef: { fieldPath: ${field} } }, elsewhere ${elsewhere}`
    throw new UsageError(`${name} is not set in the environment: ${advice}`)
  }
  return value
}

function readable(path: string, flag: string): void {
  try {
    readFileSync(path)
  } catch (error) {
    throw new UsageError(`${flag} ${path} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
