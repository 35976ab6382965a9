import { randomBytes } from 'node:crypto'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { Authority } from '../../../../dev/certificates.ts'
import { clearAddresses, logClearAddresses } from '../../../../src/kas/config/clear-addresses.ts'
import { parseKasConfig } from '../../../../src/kas/config/kas-config.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { checkFile, configFolder } from '../../../support/check-config.ts'

/** check-config reads the files that a configuration names. It reports files it does not read and use without TLS. */

const authority = await Authority.create('root of the test')
const pair = await authority.issueServing({ dns: ['localhost'], ip: [] })
const otherPair = await authority.issueServing({ dns: ['localhost'], ip: [] })
const ended = await Authority.create('an authority that has ended', { lifeMs: -1000 })
const endedPair = await ended.issueServing({ dns: ['localhost'], ip: [] })
const secret = (bytes: number) => randomBytes(bytes).toString('base64')

interface World {
  readonly folder: string
  write(name: string, text: string): Promise<string>
  check(tree: object, ...args: readonly string[]): Promise<{ code: number; stdout: string }>
}

async function world(t: Test, option = 'configuration-file'): Promise<World> {
  const { folder, write } = await configFolder(t)
  const check = async (tree: object, ...args: readonly string[]) =>
    checkFile(t, option, await write('checked.yaml', stringify(tree)), args)
  return { folder, write, check }
}

/** Blocks with each key that names a file. The file is `to(key)`. */
const namedBy: readonly (readonly [key: string, tree: (file: string) => object])[] = [
  ['directory.file', (file) => ({ directory: { file } })],
  ['agent.listen.certificate_file', (file) => listening('agent', file)],
  ['observability.listen.certificate_file', (file) => listening('observability', file)],
  ['api.listen.certificate_file', (file) => listening('api', file)],
  [
    'agent.kubernetes_api.listen.certificate_file',
    (file) => ({ agent: { kubernetes_api: { listen: { certificate_file: file, key_file: file } } } }),
  ],
  ['gitlab.authentication_secret_file', (file) => ({ gitlab: { authentication_secret_file: file } })],
  ['gitlab.ca_certificate_file', (file) => ({ gitlab: { ca_certificate_file: file } })],
  ['api.listen.authentication_secret_file', (file) => ({ api: { listen: { authentication_secret_file: file } } })],
  [
    'private_api.listen.authentication_secret_file',
    (file) => ({ private_api: { listen: { authentication_secret_file: file } } }),
  ],
  [
    'cluster.previous_authentication_secret_file',
    (file) => ({ cluster: { previous_authentication_secret_file: file } }),
  ],
  ...['websocket_token_secret_file', 'accel_redirect_secret_file'].map(
    (name) =>
      [`agent.kubernetes_api.${name}`, (file: string) => ({ agent: { kubernetes_api: { [name]: file } } })] as const,
  ),
  ...['otlp_token_secret_file', 'otlp_ca_certificate_file'].map(
    (name) =>
      [
        `observability.tracing.${name}`,
        (file: string) => ({ observability: { tracing: { otlp_endpoint: 'http://127.0.0.1:1', [name]: file } } }),
      ] as const,
  ),
]

function listening(block: string, file: string): object {
  return { [block]: { listen: { certificate_file: file, key_file: file } } }
}

/** Configuration that kas needs when it has no directory file. */
async function sound({ write }: World): Promise<Record<string, Record<string, unknown>>> {
  const file = await write('secret', secret(32))
  return {
    gitlab: { address: 'https://gitlab.example.com', authentication_secret_file: file },
    api: { listen: { authentication_secret_file: file } },
    private_api: { listen: { authentication_secret_file: file } },
  }
}

/** Merges one block over another at each level. */
function merged(one: unknown, other: unknown): unknown {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return other
  const all = { ...one } as Record<string, unknown>
  for (const [key, value] of Object.entries(other)) all[key] = key in all ? merged(all[key], value) : value
  return all
}

t.test(
  'each key that names a file: garbage is an error, an absent file is said, and an error with --files',
  async (t) => {
    const one = await world(t)
    const base = await sound(one)
    const isSound = await one.check(base, '--files')
    t.equal(isSound.code, 0, isSound.stdout)
    t.match(isSound.stdout, 'checked.yaml: can be used\n')
    const garbage = await one.write('garbage', 'not = [ what: it should be\nnor this')
    for (const [key, tree] of namedBy) {
      const wrong = await one.check(merged(base, tree(garbage)) as object)
      t.equal(wrong.code, 1, `${key}: ${wrong.stdout}`)
      t.match(wrong.stdout, /garbage/, key)
      if (key !== 'directory.file') t.match(wrong.stdout, `${key}: garbage`, key)
      const absent = merged(base, tree(join(one.folder, 'absent'))) as object
      const { code, stdout } = await one.check(absent)
      t.equal(code, 0, `${key}: ${stdout}`)
      t.match(stdout, new RegExp(`line \\d+: ${key.replaceAll('.', '\\.')}: not checked: absent is not here\n`), key)
      t.match(stdout, /checked\.yaml: can be used;.* files? (is|are) not checked\n/, key)
      const strict = await one.check(absent, '--files')
      t.equal(strict.code, 1, `${key}, --files`)
      t.match(strict.stdout, /checked\.yaml: cannot be used; /, `${key}, --files`)
    }
  },
)

t.test('a certificate fits its key, and is valid now', async (t) => {
  const one = await world(t)
  const base = await sound(one)
  const written = async (certificate: string, key: string) => {
    const listen = {
      certificate_file: await one.write('tls.crt', certificate),
      key_file: await one.write('tls.key', key),
    }
    return await one.check({ ...base, agent: { kubernetes_api: { listen } } }, '--files')
  }
  t.match(await written(pair.certificate, pair.key), { code: 0, stdout: /checked\.yaml: can be used\n/ })
  const cases: readonly [certificate: string, key: string, said: RegExp][] = [
    [pair.certificate, otherPair.key, /tls\.crt with key tls\.key: it is the key of another certificate/],
    [endedPair.certificate, endedPair.key, /tls\.crt: .* has ended at .*; renew it/],
    [pair.key, pair.key, /tls\.crt/],
    ['', pair.key, /tls\.crt/],
    [pair.certificate.slice(0, 200), pair.key, /tls\.crt/],
  ]
  for (const [certificate, key, said] of cases) {
    const { code, stdout } = await written(certificate, key)
    t.equal(code, 1, stdout)
    t.match(stdout, said)
    t.match(stdout, /agent\.kubernetes_api\.listen\.certificate_file: /)
    t.notMatch(stdout, 'PRIVATE')
  }
  await written(pair.certificate, pair.key)
  await rm(join(one.folder, 'tls.key'))
  const listen = { certificate_file: join(one.folder, 'tls.crt'), key_file: join(one.folder, 'tls.key') }
  const half = await one.check({ ...base, agent: { listen } })
  t.equal(half.code, 0)
  t.match(half.stdout, 'agent.listen.key_file: not checked: tls.key is not here')
})

t.test('secrets have their length', async (t) => {
  const one = await world(t)
  const base = await sound(one)
  const lengths: readonly [key: string, wrong: readonly number[], right: readonly number[]][] = [
    ['gitlab.authentication_secret_file', [31, 33, 0], [32]],
    ['api.listen.authentication_secret_file', [31, 33, 0], [32]],
    ['private_api.listen.authentication_secret_file', [0], [32, 64]],
    ['cluster.previous_authentication_secret_file', [0], [32, 64]],
    ['agent.kubernetes_api.websocket_token_secret_file', [63, 73], [64, 72]],
    ['agent.kubernetes_api.accel_redirect_secret_file', [31], [32, 100]],
  ]
  for (const [key, wrong, right] of lengths) {
    const tree = namedBy.find(([name]) => name === key)?.[1] as (file: string) => object
    for (const bytes of [...wrong, ...right]) {
      const file = await one.write('other-secret', secret(bytes))
      const { code, stdout } = await one.check(merged(base, tree(file)) as object, '--files')
      t.equal(code, wrong.includes(bytes) ? 1 : 0, `${key}: ${bytes} bytes: ${stdout}`)
      if (wrong.includes(bytes)) t.match(stdout, new RegExp(`${key}: other-secret: .*found ${bytes} bytes`))
    }
  }
  const short = await one.check(
    merged(base, {
      private_api: { listen: { authentication_secret_file: await one.write('short', secret(8)) } },
    }) as object,
  )
  t.equal(short.code, 0)
  t.match(short.stdout, 'short has 8 bytes')
})

t.test('the directory file that kas names is read with what it names', async (t) => {
  const one = await world(t)
  const directory = await one.write('directory.yaml', 'usrs: []\n')
  const tree = { directory: { file: directory } }
  const misspelt = await one.check(tree)
  t.equal(misspelt.code, 1)
  t.match(misspelt.stdout, 'directory.yaml: line 1: usrs: this key is not known, did you mean users?')
  const again = await one.check(tree, '--directory', directory)
  t.equal(again.stdout.match(/usrs/g)?.length, 1, 'once, if it is named twice')
  const git = (more: object) =>
    one.write(
      'directory.yaml',
      stringify({ projects: [{ id: 1, path: 'a/b', git: { url: 'https://git.example.com/a.git', ...more } }] }),
    )
  await git({ credentials_file: join(one.folder, 'absent'), hook_secret_file: join(one.folder, 'absent') })
  const absent = await one.check(tree)
  t.equal(absent.code, 0, absent.stdout)
  t.match(absent.stdout, 'projects[0].git.credentials_file: not checked: absent is not here')
  t.match(absent.stdout, 'projects[0].git.hook_secret_file: not checked: absent is not here')
  t.equal((await one.check(tree, '--files')).code, 1)
  for (const key of ['credentials_file', 'hook_secret_file']) {
    await git({ [key]: await one.write('lines', 'one\ntwo\n') })
    const { code, stdout } = await one.check(tree)
    t.equal(code, 1, stdout)
    t.match(stdout, `projects[0].git.${key}: lines: `)
    t.match(stdout, 'allowed: one line')
    t.notMatch(stdout, /\btwo\b/)
  }
  await git({ hook_secret_file: await one.write('short', 'abc\n') })
  t.match((await one.check(tree)).stdout, 'short has 3 characters, which can be guessed')
  await git({ hook_secret_file: await one.write('long', `${secret(32)}\n`) })
  const well = await one.check(tree, '--files')
  t.equal(well.code, 0, well.stdout)
  t.match(well.stdout, 'directory.yaml: can be used\n')
})

t.test('a folder in place of a file, and a file that another user alone may read', async (t) => {
  const one = await world(t)
  const base = await sound(one)
  await mkdir(join(one.folder, 'folder'))
  const folder = merged(base, { gitlab: { authentication_secret_file: join(one.folder, 'folder') } }) as object
  t.equal((await one.check(folder)).code, 1)
  if (process.getuid?.() === 0) return // root can read the file anyway
  await chmod(join(one.folder, 'secret'), 0)
  const { code, stdout } = await one.check(base)
  t.equal(code, 0, stdout)
  t.match(stdout, 'not checked: secret is here, but not for this user to read')
})

const placed = (address: string, more: object = {}) => ({
  directory: { file: 'd.yaml' },
  agent: { kubernetes_api: { listen: { address, ...more } } },
})

t.test('no TLS on an address that is not loopback is said by check-config and by the log, once', async (t) => {
  const one = await world(t)
  const clear = [
    ':8154',
    '0.0.0.0:8154',
    '[::]:8154',
    '10.0.0.7:8154',
    'kas.example.com:8154',
    'localhost.example:8154',
  ]
  const fine = ['127.0.0.1:8154', '127.9.9.9:8154', 'localhost:8154', '[::1]:8154', '[::ffff:127.0.0.1]:8154']
  for (const address of [...clear, ...fine]) {
    const { code, stdout } = await one.check(placed(address))
    t.equal(code, 0, 'a front may end TLS')
    const isClear = clear.includes(address)
    t.equal(stdout.includes('has no TLS'), isClear, `${address}: ${stdout}`)
    const { log, lines } = capturedLog()
    logClearAddresses(log, parseKasConfig('kas.yaml', stringify(placed(address))).config)
    t.equal(lines.length, isClear ? 1 : 0, address)
    if (isClear) t.match(lines, [{ level: 'warn', addresses: [`agent.kubernetes_api.listen.address: ${address}`] }])
  }
  const { stdout } = await one.check(placed(':8154'))
  t.match(
    stdout,
    'line 6: agent.kubernetes_api.listen.address: :8154 is no loopback address and has no TLS: tokens of users',
  )
  const absent = await one.check({ directory: { file: 'd.yaml' }, agent: { kubernetes_api: {} } })
  t.match(absent.stdout, 'agent.kubernetes_api.listen.address: 0.0.0.0:8154 is no loopback address', 'the default, too')
})

t.test(
  'each port that others reach has its line; TLS, a Unix socket and replicas among themselves have none',
  async (t) => {
    const listen = { address: ':1' }
    const blocks = { agent: { listen, kubernetes_api: { listen } }, api: { listen }, observability: { listen } }
    const secretFile = { authentication_secret_file: 'a' }
    const others = { private_api: { listen: { address: ':2', ...secretFile } }, cluster: { listen: { address: ':3' } } }
    const of = (tree: object) =>
      clearAddresses(parseKasConfig('kas.yaml', stringify(tree)).config).map(({ key }) => key)
    const all = { ...blocks, ...others, api: { listen: { ...listen, ...secretFile } }, directory: { file: 'd' } }
    t.strictSame(of(all), [
      'agent.listen.address',
      'agent.kubernetes_api.listen.address',
      'api.listen.address',
      'observability.listen.address',
    ])
    const tls = { certificate_file: 'a', key_file: 'b' }
    t.strictSame(of(placed(':1', tls)), [])
    t.strictSame(of(placed('/run/kas/api', { network: 'unix' })), [])
    const { log, lines } = capturedLog()
    logClearAddresses(
      log,
      parseKasConfig('f', stringify({ directory: { file: 'd' }, observability: { listen } })).config,
    )
    t.match(lines, [{ level: 'info', msg: /metrics can be read/ }], 'no token passes there')
  },
)
