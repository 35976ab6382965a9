import t, { type Test } from 'tap'
import { parseFlags } from '../../../../src/agentk/config/flags.ts'
import { mergeRunning, runningAgentk } from '../../../../src/agentk/doctor/running-agentk.ts'

/** Makes the folder of a process as /proc has it. */
const processOf = (t: Test, words: readonly string[], environ: readonly string[] = []) =>
  t.testdir({ cmdline: [...words, ''].join('\0'), environ: [...environ, ''].join('\0') })

const flags = ['--kas-address=wss://kas.test', '--token-file=/etc/agentk/token']

t.test('agentk as process 1 is found by its program, whatever starts it', async (t) => {
  for (const words of [
    ['/usr/bin/tini', '--', '/usr/bin/node', '--max-semi-space-size=4', '/usr/lib/kas/dist/agentk/main.js'],
    ['node', '/app/node_modules/.bin/agentk'],
    ['node', '/app/bin/agentk.mjs'],
    ['/app/node', '/app/src/agentk/main.ts'],
    ['agentk'],
  ]) {
    const folder = processOf(t, [...words, ...flags], ['POD_NAME=agentk-0', 'EQUALS=a=b', 'LINES=a\nb'])
    const env = { POD_NAME: 'agentk-0', EQUALS: 'a=b', LINES: 'a\nb' }
    t.same(await runningAgentk(folder), { args: flags, env }, words.join(' '))
  }
})

t.test('another process 1 is none', async (t) => {
  for (const words of [
    ['/sbin/init'],
    ['/pause'],
    ['sh', '-c', 'agentk --kas-address=wss://kas.test'],
    ['node', '/usr/lib/kas/dist/kas/main.js', '--configuration-file=/etc/agentk.yaml'],
    ['/usr/bin/tini', '--', 'node', '/usr/lib/kas/dist/agentk/main.js', 'doctor', ...flags],
  ])
    t.equal(await runningAgentk(processOf(t, words)), undefined, words.join(' '))
  t.equal(await runningAgentk('/nonexistent'), undefined)
})

const merge = (given: string[], env: NodeJS.ProcessEnv, args: string[], own: Record<string, string> = {}) =>
  mergeRunning(parseFlags(given), env, { args, env: own })

t.test('flags of the running agentk are taken, and named without their values', async (t) => {
  const { flags: all, env, taken } = merge([], {}, flags, { POD_NAME: 'a', POD_NAMESPACE: 'b', PATH: '/bin' })
  t.match(all, { 'kas-address': 'wss://kas.test', 'token-file': '/etc/agentk/token' })
  t.match(env, { POD_NAME: 'a', POD_NAMESPACE: 'b' })
  t.same(taken, ['--kas-address', '--token-file', 'POD_NAMESPACE', 'POD_NAME'])
})

t.test('what is given counts before it', async (t) => {
  const given = merge(['--kas-address=grpc://other'], { POD_NAME: 'mine' }, flags, { POD_NAME: 'a' })
  t.equal(given.flags['kas-address'], 'grpc://other')
  t.equal(given.env.POD_NAME, 'mine')
  t.same(given.taken, ['--token-file'])
  const authority = merge(['--ca-cert-file=/mine'], {}, ['--kas-ca-cert-file=/own'])
  t.same([authority.flags['kas-ca-cert-file'], authority.flags['ca-cert-file']], [undefined, '/mine'])
  const cluster = merge(['--kubeconfig=/mine'], {}, ['--kubeconfig=/own', '--context=own'])
  t.same([cluster.flags.kubeconfig, cluster.flags.context], ['/mine', undefined])
})

t.test('a token that is given replaces the other form of it', async (t) => {
  const file = merge(['--token-file=/mine'], {}, [], { AGENTK_TOKEN: 'own' })
  t.same([file.flags['token-file'], file.env.AGENTK_TOKEN], ['/mine', undefined])
  const variable = merge([], { AGENTK_TOKEN: 'mine' }, flags)
  t.same([variable.flags['token-file'], variable.env.AGENTK_TOKEN], [undefined, 'mine'])
  // a command in agentk's container inherits the environment of that container
  const inherited = merge(['--token-file=/mine'], { AGENTK_TOKEN: 'own' }, [], { AGENTK_TOKEN: 'own' })
  t.same([inherited.flags['token-file'], inherited.env.AGENTK_TOKEN], ['/mine', undefined])
})

t.test('without a running agentk nothing is added', async (t) => {
  const env = { POD_NAME: 'mine' }
  t.same(mergeRunning(parseFlags(flags), env, undefined), { flags: parseFlags(flags), env, taken: [] })
})
