import * as z from 'zod'
import { blockSchema, durationSchema, urlSchema, wholeNumberSchema } from '../../lib/config.ts'
import { logFormats } from '../../lib/log-format.ts'
import { DecisiveKeys } from '../../lib/unknown-keys.ts'
import { accessLogSchema } from './access-log.ts'
import { clusterName, clusterTexts } from './cluster-texts.ts'
import { discoverySchema } from './discovery.ts'
import { type GossipListen, gossipListenSchema } from './gossip-listen.ts'
import { addressForms, isSocketPath, networks, parseListenAddress, socketPathForm } from './listen-address.ts'
import { proxyKeys } from './trusted-proxies.ts'

/**
 * Schema of kas' configuration file: upstream's keys and defaults (doc/reference/tunnel-protocol.md 7.1), and further
 * keys under `directory` and `cluster`. Durations are parsed to milliseconds. doc/reference/configuration.md explains each key.
 */

const text = z.string()
const addressForm = 'a URL that begins with http:// or https://, without user, query and fragment'
const gitlabAddress = urlSchema('http', 'https').refine(
  (value) => !/[?#]/.test(value) && URL.canParse(value) && new URL(value).username + new URL(value).password === '',
  { error: addressForm },
)
const urlPath = (defaultPath: string) => {
  const error = 'a path that begins with /'
  return z.string({ error }).startsWith('/', { error }).prefault(defaultPath)
}
const socketPath = z.string({ error: socketPathForm }).refine(isSocketPath, { error: socketPathForm })
const rateLimit = (perSecond: number, bucket: number) =>
  blockSchema({
    refill_rate_per_second: z
      .number({ error: 'a number above zero' })
      .positive({ error: 'a number above zero' })
      .prefault(perSecond),
    bucket_size: wholeNumberSchema(bucket, { min: 1, max: 1_000_000 }),
  })
const tlsFiles = { certificate_file: text.optional(), key_file: text.optional() }

/** Schema of a `listen` block: the address, and the keys of `more`. */
function listenSchema<Shape extends z.ZodRawShape>(address: string, more: Shape) {
  const shape = { network: z.enum(networks).prefault('tcp'), address: text.prefault(address), ...more }
  return blockSchema(shape).superRefine((listen, context) => {
    const given = listen as {
      network: (typeof networks)[number]
      address: string
      certificate_file?: string
      key_file?: string
    }
    if (!parseListenAddress(given.network, given.address)) {
      context.addIssue({ code: 'custom', path: ['address'], message: addressForms })
    }
    if ((given.certificate_file === undefined) === (given.key_file === undefined)) return
    const path = [given.key_file === undefined ? 'key_file' : 'certificate_file']
    context.addIssue({ code: 'custom', path, message: 'certificate_file and key_file, both or neither' })
  })
}

const kubernetesApi = z.object(
  {
    listen: listenSchema('0.0.0.0:8154', {
      ...tlsFiles,
      ...proxyKeys,
      listen_grace_period: durationSchema('5s'),
      shutdown_grace_period: durationSchema('3600s'),
      watch_grace_period: durationSchema('60s'),
    }),
    /** ends with `/` once parsed */
    url_path_prefix: urlPath('/').transform((path) => (path.endsWith('/') ? path : `${path}/`)),
    allowed_agent_cache_ttl: durationSchema('60s'),
    allowed_agent_cache_error_ttl: durationSchema('10s'),
    websocket_token_secret_file: text.optional(),
    accel_redirect_secret_file: text.optional(),
    extra_allowed_response_headers: z.array(text).prefault([]),
    response_header_allowlist: z.boolean({ error: 'true or false' }).prefault(false),
  },
  { error: 'a block of keys' },
)

const tracing = z.object(
  {
    otlp_endpoint: urlSchema('http', 'https'),
    otlp_token_secret_file: text.optional(),
    otlp_ca_certificate_file: text.optional(),
  },
  { error: 'a block of keys' },
)

export const kasConfigSchema = blockSchema({
  gitlab: blockSchema({
    address: gitlabAddress.optional(),
    authentication_secret_file: text.optional(),
    ca_certificate_file: text.optional(),
    api_rate_limit: rateLimit(50, 250),
    external_url: urlSchema('http', 'https').optional(),
  }),
  agent: blockSchema({
    listen: listenSchema('127.0.0.1:8150', {
      ...tlsFiles,
      ...proxyKeys,
      websocket: z.boolean().prefault(false),
      connections_per_token_per_minute: wholeNumberSchema(40_000, { min: 1, max: 4_294_967_295 }),
      max_connection_age: durationSchema('7200s', { positive: true }),
      listen_grace_period: durationSchema('5s'),
    }),
    configuration: blockSchema({
      poll_period: durationSchema('300s', { positive: true }),
      max_configuration_file_size: wholeNumberSchema(131_072, { min: 1, max: 4_194_304 }),
    }),
    gitops: blockSchema({
      poll_period: durationSchema('300s', { positive: true }),
      project_info_cache_ttl: durationSchema('300s'),
      project_info_cache_error_ttl: durationSchema('60s'),
      max_manifest_file_size: wholeNumberSchema(5_242_880, { min: 1, max: 1_073_741_824 }),
      max_total_manifest_file_size: wholeNumberSchema(20_971_520, { min: 1, max: 1_073_741_824 }),
      max_number_of_paths: wholeNumberSchema(100, { min: 1, max: 1000 }),
      max_number_of_files: wholeNumberSchema(1000, { min: 1, max: 50_000 }),
    }),
    info_cache_ttl: durationSchema('300s'),
    info_cache_error_ttl: durationSchema('60s'),
    kubernetes_api: kubernetesApi.optional(),
  }),
  observability: blockSchema({
    usage_reporting_period: durationSchema('60s'),
    listen: listenSchema('127.0.0.1:8151', tlsFiles),
    prometheus: blockSchema({ url_path: urlPath('/metrics') }),
    liveness_probe: blockSchema({ url_path: urlPath('/liveness') }),
    readiness_probe: blockSchema({ url_path: urlPath('/readiness') }),
    logging: blockSchema({
      level: z.enum(['debug', 'info', 'warn', 'error']).prefault('info'),
      format: z.enum(logFormats).prefault('json'),
    }),
    access_log: accessLogSchema,
    tracing: tracing.optional(),
  }),
  gitaly: blockSchema({
    global_api_rate_limit: rateLimit(30, 70),
    per_server_api_rate_limit: rateLimit(15, 40),
  }),
  api: blockSchema({
    listen: listenSchema('127.0.0.1:8153', {
      ...tlsFiles,
      authentication_secret_file: text.optional(),
      max_connection_age: durationSchema('7200s', { positive: true }),
      listen_grace_period: durationSchema('5s'),
    }),
  }),
  private_api: blockSchema({
    listen: listenSchema('127.0.0.1:8155', {
      authentication_secret_file: text.optional(),
      listen_grace_period: durationSchema('5s'),
    }),
  }),
  directory: blockSchema({ file: text.optional() }),
  ops: blockSchema({ socket: socketPath.optional() }),
  cluster: blockSchema({
    name: clusterName,
    discovery: discoverySchema,
    listen: gossipListenSchema,
    ...clusterTexts,
  }),
})

const place = ['network', 'address']
const tlsPlace = [...place, 'certificate_file', 'key_file']
const ofListen = (block: string, ...names: readonly string[]) => names.map((name) => `${block}.listen.${name}`)

/** Keys with addresses of kas, keys that decide rights, and keys that name secrets of callers. */
export const decisiveKeys = DecisiveKeys.of([
  'directory.file',
  ...['address', 'authentication_secret_file', 'ca_certificate_file', 'external_url'].map((name) => `gitlab.${name}`),
  ...ofListen('agent', ...tlsPlace, 'trusted_proxies', 'proxy_protocol', 'websocket'),
  ...ofListen('agent.kubernetes_api', ...tlsPlace, 'trusted_proxies', 'proxy_protocol'),
  'agent.kubernetes_api.url_path_prefix',
  'agent.kubernetes_api.websocket_token_secret_file',
  'agent.kubernetes_api.accel_redirect_secret_file',
  ...ofListen('observability', ...tlsPlace),
  ...ofListen('api', ...tlsPlace, 'authentication_secret_file'),
  ...ofListen('private_api', ...place, 'authentication_secret_file'),
  ...ofListen('cluster', ...place),
  'cluster.previous_authentication_secret_file',
  'cluster.agent_address',
  'ops.socket',
])

/** Version that is reported to GitLab if `cluster.advertised_version` is absent. */
export const defaultAdvertisedVersion = 'v18.5.0'

/** Values of the file alone. */
export type KasFile = z.output<typeof kasConfigSchema>

/** Values of the file, with derived ones. */
export type KasConfig = Omit<KasFile, 'cluster'> & {
  readonly cluster: Omit<KasFile['cluster'], 'listen'> & { readonly listen: GossipListen }
}
