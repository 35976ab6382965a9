import { join } from 'node:path'
import t from 'tap'
import { readConfig, readListenAddress } from '../../../../src/agentk/config/config.ts'
import { parseFlags } from '../../../../src/agentk/config/flags.ts'

const folder = t.testdir({ token: 'glagent-1\n', 'ca.pem': 'CA' })
const env = { POD_NAMESPACE: 'ns', POD_NAME: 'pod', AGENTK_TOKEN: 'from-env' }
const address = '--kas-address=wss://kas.example.com/-/kubernetes-agent/'
const read = (argv: string[], given: NodeJS.ProcessEnv = env) => readConfig(parseFlags(argv), given)

// wire: agentk.flag.token-file, agentk.flag.ca, agentk.flag.kas-header, agentk.flag.kas-tls-server-name
// wire: agentk.flag.observability, agentk.env, agentk.flag.kas-address
t.test('flags and environment of the stock chart', (t) => {
  const token = join(folder, 'token')
  const config = read(
    [
      `--token-file=${token}`,
      address,
      '--kas-header=X-A: 1',
      '--kas-header',
      'X-B:2',
      `--kas-ca-cert-file=${join(folder, 'ca.pem')}`,
      '--kas-tls-server-name=kas',
      '--observability-listen-address=127.0.0.1:9999',
    ],
    { ...env, AGENTK_TOKEN: '' },
  )
  t.equal(config.token(), 'glagent-1', 'without the newline')
  t.equal(config.kas.address.authority, 'kas.example.com:443')
  t.same(config.kas.headers, [
    ['X-A', '1'],
    ['X-B', '2'],
  ])
  t.equal(config.kas.serverName, 'kas')
  t.same(config.observability.listen, { host: '127.0.0.1', port: 9999 })
  t.same(config.pod, { namespace: 'ns', name: 'pod' })
  t.equal(
    read([address, `--ca-cert-file=${join(folder, 'ca.pem')}`]).kas.caFile,
    join(folder, 'ca.pem'),
    'the older name',
  )
  t.equal(read([address]).token(), 'from-env')
  t.end()
})

// wire: agentk.flag.token-file, agentk.env, agentk.flag.observability
t.test('what is wrong is named, and what to do', (t) => {
  const token = `--token-file=${join(folder, 'token')}`
  t.throws(() => read([]), /--kas-address is missing/)
  t.throws(() => read([address, token]), /--token-file and AGENTK_TOKEN are both set/)
  t.throws(() => read([address], { ...env, AGENTK_TOKEN: '' }), /set --token-file or AGENTK_TOKEN/)
  t.throws(
    () => read([address, '--token-file=/none'], { ...env, AGENTK_TOKEN: '' }),
    /--token-file \/none cannot be read/,
  )
  t.throws(() => read([address], { ...env, POD_NAME: '' }), /POD_NAME is not set .* fieldPath: metadata\.name /)
  t.throws(() => read([address], { AGENTK_TOKEN: 'x', POD_NAME: 'x' }), /POD_NAMESPACE is not set/)
  t.throws(() => read(['--kas-address=https://kas']), /write wss:/)
  t.throws(() => read([address, '--kas-header=secret']), { message: '--kas-header must be "Name: value"' })
  t.throws(() => read([address, '--observability-listen-network=udp']), /allowed: tcp, tcp4, tcp6, unix/)
  t.throws(() => read([address, '--observability-cert-file=x']), /go together/)
  t.throws(() => read([address], { ...env, LOG_LEVEL: 'loud' }), /allowed: debug, info, warn, error/)
  t.throws(() => read([address, '--log-format=xml'], env), /--log-format is "xml", allowed: json, text/)
  t.equal(read([address, '--log-format=text'], env).log.format, 'text')
  t.equal(read([address], env).log.format, 'json')
  t.end()
})

t.test('whom requests may act as', async (t) => {
  t.strictSame(read([address]).mayImpersonate, { callers: new Set(), kas: new Set() })
  const { callers, kas } = read([
    address,
    '--callers-may-impersonate=user:ada',
    '--callers-may-impersonate',
    'group:dev',
    '--may-impersonate=serviceaccount:shop:deployer',
    '--may-impersonate=extra:scopes',
  ]).mayImpersonate
  t.strictSame(callers, new Set(['user:ada', 'group:dev']))
  t.strictSame(kas, new Set(['serviceaccount:shop:deployer', 'extra:scopes']))
  t.throws(() => read([address, '--may-impersonate=any']), {
    name: 'UsageError',
    message:
      '--may-impersonate "any", allowed: user:NAME, group:NAME, serviceaccount:NAMESPACE:NAME, extra:KEY or uid:UID',
  })
  t.throws(() => read([address, '--callers-may-impersonate=uid:7']), {
    name: 'UsageError',
    message: '--callers-may-impersonate "uid:7", allowed: user:NAME, group:NAME, serviceaccount:NAMESPACE:NAME or any',
  })
})

t.test('unknown flags name the nearest one', (t) => {
  t.throws(() => parseFlags(['--kas-adress=x']), { message: 'unknown flag --kas-adress, did you mean --kas-address?' })
  t.throws(() => parseFlags(['--wholly-different-thing']), { message: 'unknown flag --wholly-different-thing' })
  t.throws(() => parseFlags(['stray']), { name: 'UsageError' })
  t.throws(() => parseFlags(['--kas-address']), { name: 'UsageError' })
  t.end()
})

t.test('listen addresses', (t) => {
  t.same(readListenAddress('tcp', ':8080'), { port: 8080 })
  t.same(readListenAddress('tcp4', ':0'), { host: '0.0.0.0', port: 0 })
  t.same(readListenAddress('tcp', '[::1]:8080'), { host: '::1', port: 8080 })
  t.same(readListenAddress('unix', '/run/x.sock'), { path: '/run/x.sock' })
  t.throws(() => readListenAddress('tcp', '8080'), /expected host:port/)
  t.end()
})
