import { parseArgs } from 'node:util'
import { nearestName } from '../../lib/nearest-name.ts'

const text = { type: 'string' } as const
const list = { type: 'string', multiple: true } as const
const flag = { type: 'boolean' } as const

/**
 * Flags of stock agentk (doc/reference/tunnel-protocol.md 2.10), and flags of kubectl that name a cluster and an
 * identity.
 */
const options = {
  'kas-address': text,
  'token-file': text,
  'ca-cert-file': text,
  'kas-ca-cert-file': text,
  'kas-header': list,
  'kas-insecure-skip-tls-verify': flag,
  'kas-tls-server-name': text,
  'kas-allow-home': list,
  'observability-listen-network': text,
  'observability-listen-address': text,
  'observability-cert-file': text,
  'observability-key-file': text,
  kubeconfig: text,
  context: text,
  cluster: text,
  user: text,
  server: { ...text, short: 's' },
  'certificate-authority': text,
  'client-certificate': text,
  'client-key': text,
  token: text,
  'insecure-skip-tls-verify': flag,
  'tls-server-name': text,
  namespace: { ...text, short: 'n' },
  as: text,
  'as-group': list,
  'as-uid': text,
  'views-token-file': text,
  'may-impersonate': list,
  'callers-may-impersonate': list,
  'log-format': text,
  version: flag,
  help: { ...flag, short: 'h' },
} as const

export type Flags = ReturnType<typeof parseArgs<{ options: typeof options }>>['values']

export const usage = `Usage: agentk --kas-address=<address> [--token-file=<file>]
       agentk doctor [-o json] [--idle SECONDS]    with the same flags, by default those of agentk in this container: says what is wrong between here, kas and the cluster, and what to do

Keeps tunnels from a cluster to kas, through which kas reaches the cluster's API server.

kas:
  --kas-address <address>          grpc://, grpcs://, ws:// or wss:// (required)
  --token-file <file>              the agent's token; or AGENTK_TOKEN in the environment
  --kas-ca-cert-file <file>        authorities to trust besides the system's; also --ca-cert-file
  --kas-header <name: value>       sent with each connection, may be repeated
  --kas-tls-server-name <name>     name to expect in kas' certificate
  --kas-allow-home <host>          replicas of kas may be there or below, too, may be repeated
  --kas-insecure-skip-tls-verify   do not check kas' certificate

Metrics, liveness and readiness:
  --observability-listen-network <tcp|tcp4|tcp6|unix>   default tcp
  --observability-listen-address <address>              default :8080
  --observability-cert-file, --observability-key-file <file>

The cluster (default: the one this pod runs in):
  --kubeconfig <file>              also KUBECONFIG in the environment
  --context, --cluster, --user <name>
  --server <address>, --certificate-authority, --client-certificate, --client-key <file>, --token <token>
  --tls-server-name <name>, --insecure-skip-tls-verify, --namespace <name>
  --as <user>, --as-group <group>, --as-uid <uid>
  --views-token-file <file>        of the account that lists and watches what views show (default: agentk's own)

Identities that requests may act as, besides GitLab's users and jobs as kas names them (default: none):
  --may-impersonate <entry>           that kas and the agent's configuration may name, may be repeated: user:NAME, group:NAME,
                                      serviceaccount:NAMESPACE:NAME, extra:KEY or uid:UID
  --callers-may-impersonate <entry>   that callers who act as the agent may name in Impersonate-User and Impersonate-Group,
                                      may be repeated: user:NAME, group:NAME, serviceaccount:NAMESPACE:NAME or any

  --log-format <json|text>         of the log on stderr; text is for people (default: json)
  --version                        print the version and exit
  --help                           print this and exit

Environment: POD_NAMESPACE and POD_NAME (required), AGENTK_TOKEN, LOG_LEVEL (debug, info, warn, error),
HTTPS_PROXY, HTTP_PROXY, NO_PROXY; OTEL_EXPORTER_OTLP_ENDPOINT and its like for traces.
`

/** A command line or environment that cannot be used: the message says what to change. */
export class UsageError extends Error {
  override name = 'UsageError'
}

/** @throws UsageError; for an unknown flag it names the nearest one */
export function parseFlags(argv: readonly string[]): Flags {
  for (const arg of argv) {
    const [, name] = /^--([^=]+)/.exec(arg) ?? []
    if (name && !Object.hasOwn(options, name)) throw new UsageError(`unknown flag --${name}${suggestion(name)}`)
    if (arg === '--') break
  }
  try {
    return parseArgs({ args: [...argv], options, strict: true }).values
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error })
  }
}

function suggestion(name: string): string {
  const nearest = nearestName(name, Object.keys(options))
  return nearest ? `, did you mean --${nearest}?` : ''
}
