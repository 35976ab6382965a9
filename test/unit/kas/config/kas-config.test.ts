import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadKasConfig, parseKasConfig } from '../../../../src/kas/config/kas-config.ts'
import { kasConfigSchema } from '../../../../src/kas/config/kas-schema.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { leafKeys } from '../../../support/leaf-keys.ts'

const example = join(import.meta.dirname, '../../../../deploy/config.example.yaml')
const ready = 'directory: { file: /d.yaml }\n'

t.test('the example file equals the defaults', async (t) => {
  const text = await readFile(example, 'utf8')
  const { config, warnings } = parseKasConfig(example, text.replace('# file:', 'file:'))
  const defaults = parseKasConfig(
    'defaults',
    'directory: { file: /etc/kas/directory.yaml }\nagent: { kubernetes_api: {} }',
  )
  t.strictSame(config, defaults.config)
  t.strictSame(warnings, [])
})

t.test('the example file names every key', async (t) => {
  const text = await readFile(example, 'utf8')
  const uncommented = text.replaceAll(/^( *)# ( *[a-z_]+:.*)$/gm, '$1$2')
  const { warnings } = parseKasConfig(example, uncommented)
  t.ok(
    warnings.every(({ key }) => key.startsWith('gitlab.')),
    'what it names is known, and has effect but for directory.file',
  )
  for (const key of leafKeys(kasConfigSchema)) {
    const last = key.split('.').at(-1)
    t.match(uncommented, new RegExp(`^ *${last}:`, 'm'), key)
  }
})

// wire: configuration.defaults
t.test('defaults are those of upstream', async (t) => {
  const { config } = parseKasConfig('kas.yaml', `${ready}agent: { kubernetes_api: {} }`)
  t.match(config, {
    gitlab: { api_rate_limit: { refill_rate_per_second: 50, bucket_size: 250 } },
    agent: {
      listen: {
        network: 'tcp',
        address: '127.0.0.1:8150',
        websocket: false,
        connections_per_token_per_minute: 40_000,
        max_connection_age: 7_200_000,
        listen_grace_period: 5000,
      },
      configuration: { poll_period: 300_000, max_configuration_file_size: 131_072 },
      gitops: {
        poll_period: 300_000,
        project_info_cache_ttl: 300_000,
        project_info_cache_error_ttl: 60_000,
        max_manifest_file_size: 5_242_880,
        max_total_manifest_file_size: 20_971_520,
        max_number_of_paths: 100,
        max_number_of_files: 1000,
      },
      info_cache_ttl: 300_000,
      info_cache_error_ttl: 60_000,
      kubernetes_api: {
        listen: {
          address: '0.0.0.0:8154',
          listen_grace_period: 5000,
          shutdown_grace_period: 3_600_000,
          watch_grace_period: 60_000,
        },
        url_path_prefix: '/',
        allowed_agent_cache_ttl: 60_000,
        allowed_agent_cache_error_ttl: 10_000,
      },
    },
    observability: {
      usage_reporting_period: 60_000,
      listen: { address: '127.0.0.1:8151' },
      prometheus: { url_path: '/metrics' },
      liveness_probe: { url_path: '/liveness' },
      readiness_probe: { url_path: '/readiness' },
      logging: { level: 'info' },
    },
    gitaly: {
      global_api_rate_limit: { refill_rate_per_second: 30, bucket_size: 70 },
      per_server_api_rate_limit: { refill_rate_per_second: 15, bucket_size: 40 },
    },
    api: { listen: { address: '127.0.0.1:8153', max_connection_age: 7_200_000, listen_grace_period: 5000 } },
    private_api: { listen: { address: '127.0.0.1:8155', listen_grace_period: 5000 } },
  })
})

// wire: configuration.kubernetes_api, 8154.prefix.slash
t.test('the Kubernetes API server is off unless its block is there', async (t) => {
  t.equal(parseKasConfig('kas.yaml', ready).config.agent.kubernetes_api, undefined)
  const { config } = parseKasConfig('kas.yaml', `${ready}agent: { kubernetes_api: { url_path_prefix: /k8s-proxy } }`)
  t.equal(config.agent.kubernetes_api?.url_path_prefix, '/k8s-proxy/')
})

// wire: configuration.redis.server, configuration.packages
t.test('what packages write is taken, and what has no effect is named', async (t) => {
  const text = `
gitlab: { address: "http://gitlab:8181/root", external_url: "https://gitlab.example.com", authentication_secret_file: /a }
agent:
  listen: { network: tcp, address: ":8150", websocket: true }
  configuration: { poll_period: 300s }
  redis_conn_info_ttl: 300s
  gitops: { poll_period: 300s }
  kubernetes_api: { listen: { address: ":8154" }, url_path_prefix: /k8s-proxy, websocket_token_secret_file: /w }
observability: { sentry: { dsn: "", environment: "" }, logging: { level: info, grpc_level: error } }
redis: { network: tcp, server: { address: "redis:6379" }, password_file: /r, tls: { enabled: false } }
api: { listen: { network: unix, address: /run/kas.sock, authentication_secret_file: /a } }
private_api: { listen: { address: ":8155", authentication_secret_file: /p, certificate_file: /c, key_file: /k, ca_certificate_file: /ca } }
workspaces: { enabled: false, listen: { address: ":8160" } }
config:
`
  const { config, warnings } = parseKasConfig('kas.yaml', text)
  t.equal(config.api.listen.address, '/run/kas.sock')
  t.strictSame(
    warnings.map(({ kind, key }) => `${kind} ${key}`),
    [
      'unused redis',
      'unused agent.redis_conn_info_ttl',
      'unused private_api.listen.certificate_file',
      'unused private_api.listen.key_file',
      'unused private_api.listen.ca_certificate_file',
      'unused observability.logging.grpc_level',
    ],
  )
  t.ok(
    warnings.every(({ hint }) => hint),
    'each with its reason',
  )
})

// wire: configuration.packages
t.test('the files of packages hold nothing that is not known', async (t) => {
  const folder = join(import.meta.dirname, '../../../support/stock-configuration')
  for (const name of ['omnibus.yml', 'omnibus-nodes.yml', 'chart.yaml', 'chart-tls.yaml']) {
    const { warnings } = parseKasConfig(name, await readFile(join(folder, name), 'utf8'))
    t.ok(warnings.every(({ kind }) => kind === 'unused') && warnings.some(({ key }) => key === 'redis'), name)
  }
})

t.test('what has no effect beside other keys is named', async (t) => {
  const keysOf = (text: string) => parseKasConfig('kas.yaml', text).warnings.map(({ kind, key }) => `${kind} ${key}`)
  const gitlab = 'gitlab: { address: "http://g", authentication_secret_file: /a, ca_certificate_file: /c }\n'
  t.strictSame(keysOf(ready + gitlab), [
    'unused gitlab.address',
    'unused gitlab.authentication_secret_file',
    'unused gitlab.ca_certificate_file',
  ])
  const secret = 'private_api: { listen: { authentication_secret_file: /p } }\n'
  const discovery = 'cluster: { discovery: { dns: kas } }\n'
  t.strictSame(keysOf(ready + discovery), ['unused cluster.discovery'])
  t.strictSame(keysOf(ready + discovery + secret), [])
  const headers = (allowlist: boolean) =>
    `agent: { kubernetes_api: { response_header_allowlist: ${allowlist}, extra_allowed_response_headers: [X-A] } }`
  t.strictSame(keysOf(ready + headers(false)), ['unused agent.kubernetes_api.extra_allowed_response_headers'])
  t.strictSame(keysOf(ready + headers(true)), [])
})

// wire: configuration.network, configuration.durations, configuration.unknown
t.test('wrong values stop the start', async (t) => {
  const cases: Record<string, RegExp> = {
    'agent: { listen: { network: udp } }': /agent\.listen\.network: found "udp", allowed: one of tcp, tcp4, tcp6, unix/,
    'agent: { listen: { address: localhost } }': /agent\.listen\.address: found "localhost", allowed: host:port/,
    'agent: { listen: { address: "a:70000" } }': /agent\.listen\.address: found "a:70000"/,
    'agent: { listen: { certificate_file: /c } }':
      /agent\.listen\.key_file: found nothing, allowed: certificate_file and key_file, both or neither/,
    'agent: { listen: { max_connection_age: 0s } }': /max_connection_age: found "0s"/,
    'agent: { info_cache_ttl: 60 }': /agent\.info_cache_ttl: found 60, allowed: a duration/,
    'agent: { kubernetes_api: yes }': /agent\.kubernetes_api: found "yes", allowed: a block of keys/,
    'gitlab: { external_url: gitlab.example.com }': /gitlab\.external_url: .* allowed: a URL that begins with http/,
    'gitlab: { address: "https://user:secret@gitlab.example.com" }':
      /gitlab\.address: found "https:\/\/…@gitlab\.example\.com", allowed: .* without user/,
    'gitlab: { address: "https://gitlab.example.com/?a=b" }': /gitlab\.address: .* without user, query and fragment/,
    'gitlab: { api_rate_limit: { refill_rate_per_second: 0 } }':
      /refill_rate_per_second: found 0, allowed: a number above zero/,
    'observability: { prometheus: { url_path: metrics } }': /prometheus\.url_path: found "metrics", allowed: a path/,
    'observability: { logging: { level: loud } }':
      /logging\.level: found "loud", allowed: one of debug, info, warn, error/,
    'cluster: { agent_address: "https://a" }': /cluster\.agent_address/,
    'cluster: { name: "a b" }': /cluster\.name: found "a b", allowed: a name of letters/,
    'cluster: { listen: { network: unix, address: /run/g.sock } }': /found "unix", allowed: one of tcp, tcp4, tcp6/,
    'private_api: { listen: { network: unix, address: /p.sock } }\ncluster: { discovery: { dns: kas } }':
      /private_api\.listen\.network: found "unix", allowed: one of tcp, tcp4, tcp6 where cluster\.discovery is set/,
    'cluster: { advertised_version: new }': /cluster\.advertised_version: found "new", allowed: a GitLab version/,
    'cluster: { discovery: { kubernetes: {} } }': /cluster\.discovery\.kubernetes\.service: found nothing/,
  }
  for (const [text, expected] of Object.entries(cases)) {
    t.throws(() => parseKasConfig('kas.yaml', ready + text), { message: expected }, text)
  }
})

// wire: configuration.required
t.test('without a directory file all that GitLab needs is required', async (t) => {
  t.throws(() => parseKasConfig('kas.yaml', 'gitlab: { address: "https://gitlab.example.com" }'), {
    message: [
      'kas.yaml: gitlab.authentication_secret_file: found nothing, allowed: a value, or directory.file for use without GitLab',
      'kas.yaml: api.listen.authentication_secret_file: found nothing, allowed: a value, or directory.file for use without GitLab',
      'kas.yaml: private_api.listen.authentication_secret_file: found nothing, allowed: a value, or directory.file for use without GitLab',
    ].join('\n'),
  })
})

// wire: environment.OWN_PRIVATE_API_URL
t.test('the environment goes over the cluster block', async (t) => {
  const file = `${t.testdir({ 'kas.yaml': `${ready}cluster: { discovery: { static: ["10.0.0.1:8156"] } }` })}/kas.yaml`
  const env = {
    KAS_CLUSTER_DNS: 'kas.gitlab.svc',
    POD_NAME: 'kas-1',
    KAS_CLUSTER_LISTEN: ':9000',
    OWN_PRIVATE_API_URL: 'grpc://10.0.0.1:8155',
    KAS_CLUSTER_ADVERTISED_VERSION: 'v17.5.1',
  }
  const { config, ownPrivateApi } = await loadKasConfig(file, env)
  t.match(config.cluster, { name: 'kas-1', listen: { address: ':9000' }, advertised_version: 'v17.5.1' })
  t.strictSame(config.cluster.discovery, { static: [], dns: 'kas.gitlab.svc' })
  t.strictSame(ownPrivateApi, { host: '10.0.0.1', port: 8155 })
  await t.rejects(loadKasConfig(file, { KAS_CLUSTER_LISTEN: 'x' }), KasError)
  t.strictSame(config.ops, {})
  const socketOf = async (env: Record<string, string>) => (await loadKasConfig(file, env)).config.ops.socket
  t.equal(await socketOf({ KAS_OPS_SOCKET: '/run/kas.sock' }), '/run/kas.sock')
  await t.rejects(socketOf({ KAS_OPS_SOCKET: 'kas.sock' }), {
    message: /KAS_OPS_SOCKET: .* a path that begins with \//,
  })
  await t.rejects(socketOf({ KAS_OPS_SOCKET: `/${'x'.repeat(107)}` }), { message: /107 bytes/ })
  await t.rejects(socketOf({ KAS_OPS_SOCKET: `/${'x'.repeat(84)}/kas.sock` }), { message: /its folder of 84/ })
})

t.test('the access log: where, and which calls', async (t) => {
  const parse = (block: string) =>
    parseKasConfig('kas.yaml', `directory: { file: /d }\nobservability: { access_log: ${block} }`).config.observability
      .access_log
  t.strictSame(parse('{}'), { output: 'stdout', exec_command: 'program' })
  t.match(parse('{ output: /var/log/kas.log, rules: [{ level: none, users: [ada, 5], agents: [42, "43"] }] }'), {
    output: '/var/log/kas.log',
    rules: [{ level: 'none', users: ['ada', '5'], agents: ['42', '43'] }],
  })
  const wrong: Readonly<Record<string, RegExp>> = {
    '{ output: stderr }': /access_log\.output: found "stderr", allowed: stdout, none, or the absolute path of a file/,
    '{ exec_command: all }': /exec_command: found "all", allowed: one of program, full/,
    '{ rules: [{ verbs: [get] }] }': /rules\[0\]\.level: found nothing, allowed: one of none, metadata/,
    '{ rules: [{ level: full }] }': /rules\[0\]\.level: found "full"/,
    '{ rules: [{ level: none, classes: [reads] }] }': /classes\[0\]: found "reads", allowed: one of write, exec/,
    '{ rules: [{ level: none, agents: [prod] }] }': /agents\[0\]: found "prod", allowed: ids of agents/,
    '{ rules: [{ level: none, verbs: get }] }': /verbs: found "get", allowed: a list/,
  }
  for (const [block, problem] of Object.entries(wrong)) t.throws(() => parse(block), problem, block)
})

t.test('fronts that are trusted, of each listener by itself', async (t) => {
  const parse = (agent: string, env: Record<string, string> = {}) =>
    parseKasConfig('kas.yaml', `${ready}agent: ${agent}`, env)
  const trusted = (agent: string, env?: Record<string, string>) => {
    const { listen, kubernetes_api: api } = parse(agent, env).config.agent
    return [listen, api?.listen].map((each) => each && [each.trusted_proxies, each.proxy_protocol])
  }
  t.strictSame(trusted('{}'), [[[], false], undefined])
  t.strictSame(trusted('{ listen: { trusted_proxies: [10.0.0.5, "2001:db8::/64"] }, kubernetes_api: {} }'), [
    [['10.0.0.5', '2001:db8::/64'], false],
    [[], false],
  ])
  const api = 'kubernetes_api: { listen: { trusted_proxies: [10.0.0.0/30], proxy_protocol: true } }'
  const env = { KAS_TRUSTED_PROXIES: '127.0.0.1, ::1,' }
  t.strictSame(trusted(`{ ${api} }`, env), [
    [['127.0.0.1', '::1'], false],
    [['10.0.0.0/30'], true],
  ])
  const wrong: Readonly<Record<string, RegExp>> = {
    '{ listen: { trusted_proxies: 10.0.0.5 } }': /agent\.listen\.trusted_proxies: found "10\.0\.0\.5", allowed: a list/,
    '{ listen: { trusted_proxies: [nginx] } }': /trusted_proxies\[0\]: found "nginx", allowed: an address or a network/,
    '{ listen: { trusted_proxies: [0.0.0.0/0] } }': /found "0\.0\.0\.0\/0", allowed: .* never of all addresses/,
    [`{ listen: { trusted_proxies: [${Array(101).fill('10.0.0.5')}] } }`]: /at most 100 addresses/,
    '{ listen: { proxy_protocol: 1 } }': /proxy_protocol: found 1, allowed: true or false/,
    '{ listen: { proxy_protocol: true } }': /agent\.listen\.trusted_proxies: found nothing, allowed: the fronts of/,
    '{ kubernetes_api: { listen: { proxy_protocol: true } } }':
      /kubernetes_api\.listen\.trusted_proxies: found nothing/,
  }
  for (const [agent, problem] of Object.entries(wrong)) t.throws(() => parse(agent), problem, agent.slice(0, 80))
  t.throws(() => parse('{}', { KAS_TRUSTED_PROXIES: '10.0.0.5,nginx' }), /KAS_TRUSTED_PROXIES: found "nginx"/)
  const { warnings } = parse('{ listen: { network: unix, address: /a.sock, trusted_proxies: [10.0.0.5] } }')
  t.match(warnings, [{ kind: 'unused', key: 'agent.listen.trusted_proxies', hint: /Unix socket has no address/ }])
})
