import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { didYouMean } from './nearest-name.ts'

/** Address of a cluster's API server, and credentials for it. Absent parts are not used. */
export interface ClusterSettings {
  readonly server: string
  readonly ca?: Source | undefined
  readonly certificate?: Source | undefined
  readonly key?: Source | undefined
  readonly token?: Source | undefined
  readonly basic?: { readonly username: string; readonly password: string } | undefined
  readonly serverName?: string | undefined
  readonly skipVerify?: boolean | undefined
  /** user whom all requests impersonate (`--as`) */
  readonly impersonation?: ActAs | undefined
  /** name of the context in use; undefined: the kubeconfig has none */
  readonly context?: string | undefined
  /** of the context */
  readonly namespace?: string | undefined
}

export type Source = { readonly file: string } | { readonly text: string }

export interface ActAs {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid: string
  readonly extra: readonly { readonly key: string; readonly val: readonly string[] }[]
}

/** Flags of the command line about the cluster. Each one wins over the kubeconfig. */
export interface KubeconfigFlags {
  readonly kubeconfig?: string | undefined
  readonly context?: string | undefined
  readonly cluster?: string | undefined
  readonly user?: string | undefined
  readonly server?: string | undefined
  readonly certificateAuthority?: string | undefined
  readonly clientCertificate?: string | undefined
  readonly clientKey?: string | undefined
  readonly token?: string | undefined
  readonly insecureSkipTlsVerify?: boolean | undefined
  readonly tlsServerName?: string | undefined
  readonly as?: string | undefined
  readonly asGroup?: readonly string[] | undefined
  readonly asUid?: string | undefined
}

/** The kubeconfig gets its credentials from a program, as in clouds. kas runs no such program. */
export class ForeignCredentials extends Error {
  override readonly name = 'ForeignCredentials'
  readonly context: string | undefined

  constructor(user: string, context: string | undefined) {
    super(`user "${user}" of the kubeconfig gets its credentials from a program, which is not run here`)
    this.context = context
  }
}

type Block = Record<string, unknown>
interface Named {
  readonly name: string
  readonly value: Block
  /** folder of the kubeconfig, where relative paths start */
  readonly folder: string
}
interface Kubeconfig {
  readonly clusters: Named[]
  readonly users: Named[]
  readonly contexts: Named[]
  readonly currentContext: string | undefined
}

/**
 * Reads access to a cluster from kubeconfigs and flags, as kubectl does.
 *
 * @param files - merged as kubectl does: the first file that has a name wins
 * @throws Error that names the wrong file or name
 */
export async function loadKubeconfig(files: readonly string[], flags: KubeconfigFlags): Promise<ClusterSettings> {
  const config = await readFiles(files)
  const contextName = flags.context ?? config.currentContext
  const context = contextName ? find(config.contexts, contextName, 'context').value : {}
  const clusterName = flags.cluster ?? text(context.cluster)
  const userName = flags.user ?? text(context.user)
  const cluster = clusterName ? find(config.clusters, clusterName, 'cluster') : undefined
  const user = userName ? find(config.users, userName, 'user') : undefined
  const server = flags.server ?? text(cluster?.value.server)
  if (!server) throw new Error(`No cluster is named: ${files.join(', ') || 'no kubeconfig'} has no current context`)
  return {
    server: /^https?:\/\//.test(server) ? server : `https://${server}`,
    ...fromCluster(cluster, flags),
    ...fromUser(user, flags, contextName),
    impersonation: impersonation(user?.value ?? {}, flags),
    ...(contextName ? { context: contextName } : {}),
    namespace: text(context.namespace),
  }
}

async function readFiles(files: readonly string[]): Promise<Kubeconfig> {
  const config: Kubeconfig = { clusters: [], users: [], contexts: [], currentContext: undefined }
  let currentContext: string | undefined
  for (const file of files) {
    const content = await readFile(file, 'utf8').catch((cause: Error) => {
      throw new Error(`Cannot read kubeconfig ${file}: ${cause.message}`, { cause })
    })
    const document = (parse(content, { logLevel: 'error' }) ?? {}) as Block
    const folder = dirname(resolve(file))
    config.clusters.push(...entries(document.clusters, 'cluster', folder))
    config.users.push(...entries(document.users, 'user', folder))
    config.contexts.push(...entries(document.contexts, 'context', folder))
    currentContext ||= text(document['current-context'])
  }
  return { ...config, currentContext }
}

function entries(list: unknown, key: string, folder: string): Named[] {
  if (!Array.isArray(list)) return []
  return list.map((entry: Block) => ({ name: String(entry.name), value: (entry[key] ?? {}) as Block, folder }))
}

function find(list: readonly Named[], name: string, what: string): Named {
  const found = list.find((entry) => entry.name === name)
  if (found) return found
  const names = list.map((entry) => entry.name)
  throw new Error(`The kubeconfig has no ${what} "${name}"; it has: ${names.join(', ')}${didYouMean(name, names)}`)
}

function fromCluster(cluster: Named | undefined, flags: KubeconfigFlags): Partial<ClusterSettings> {
  const ca = source(cluster, 'certificate-authority', flags.certificateAuthority)
  const serverName = flags.tlsServerName ?? text(cluster?.value['tls-server-name'])
  const skipVerify = flags.insecureSkipTlsVerify ?? cluster?.value['insecure-skip-tls-verify'] === true
  return { ca, serverName, skipVerify }
}

function fromUser(
  user: Named | undefined,
  flags: KubeconfigFlags,
  context: string | undefined,
): Partial<ClusterSettings> {
  const value = user?.value ?? {}
  if (user && (value.exec || value['auth-provider']) && !flags.token) throw new ForeignCredentials(user.name, context)
  const certificate = source(user, 'client-certificate', flags.clientCertificate)
  const key = source(user, 'client-key', flags.clientKey)
  const token = bearer(user, flags)
  const username = text(value.username)
  return {
    certificate,
    key,
    token,
    basic: username && !token ? { username, password: text(value.password) ?? '' } : undefined,
  }
}

function bearer(user: Named | undefined, flags: KubeconfigFlags): Source | undefined {
  if (flags.token) return { text: flags.token }
  const file = text(user?.value.tokenFile)
  if (user && file) return { file: resolve(user.folder, file) }
  const token = text(user?.value.token)
  return token ? { text: token } : undefined
}

/** Returns the file that a flag names, else the data inside the kubeconfig, else the file that it names. */
function source(entry: Named | undefined, key: string, flag: string | undefined): Source | undefined {
  if (flag) return { file: flag }
  const data = text(entry?.value[`${key}-data`])
  if (data) return { text: Buffer.from(data, 'base64').toString() }
  const file = text(entry?.value[key])
  return entry && file ? { file: resolve(entry.folder, file) } : undefined
}

function impersonation(user: Block, flags: KubeconfigFlags): ActAs | undefined {
  const username = flags.as ?? text(user.as) ?? ''
  const groups = flags.asGroup ?? (Array.isArray(user['as-groups']) ? user['as-groups'].map(String) : [])
  const uid = flags.asUid ?? text(user['as-uid']) ?? ''
  const extras = (user['as-user-extra'] ?? {}) as Record<string, unknown[]>
  const extra = Object.entries(extras).map(([key, val]) => ({ key, val: val.map(String) }))
  const given = username !== '' || groups.length > 0 || uid !== '' || extra.length > 0
  return given ? { username, groups, uid, extra } : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
