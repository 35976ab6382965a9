import t from 'tap'
import { exitStatus, runEcho } from '../../../../dev/api-double/echo-command.ts'

async function run(command: string[], options: { stdin?: (string | number[])[]; tty?: boolean } = {}) {
  const output = { stdout: '', stderr: '' }
  const write = (name: 'stdout' | 'stderr') => async (bytes: Uint8Array) => {
    output[name] += Buffer.from(bytes).toString()
  }
  async function* chunks(parts: (string | number[])[]) {
    for (const part of parts) yield Buffer.from(part as string)
  }
  const stdin = options.stdin && chunks(options.stdin)
  const code = await runEcho(command, {
    stdin,
    tty: options.tty ?? false,
    stdout: write('stdout'),
    stderr: write('stderr'),
  })
  return { code, ...output }
}

t.test('echo prints its arguments, cat gives back its input', async (t) => {
  t.same(await run(['echo', 'a', 'b']), { code: 0, stdout: 'a b\n', stderr: '' })
  t.same(await run(['echo', '-n', 'a']), { code: 0, stdout: 'a', stderr: '' })
  t.same(await run(['cat'], { stdin: ['one\n', 'two'] }), { code: 0, stdout: 'one\ntwo', stderr: '' })
  t.same(await run(['cat']), { code: 0, stdout: '', stderr: '' })
  t.equal((await run(['true'])).code, 0)
  t.equal((await run(['false'])).code, 1)
})

t.test('other commands are not run, and say so', async (t) => {
  t.match(await run(['ls', '/']), { code: 127, stdout: '', stderr: /runs no "ls"/ })
  t.match(await run(['sh'], { stdin: ['x'] }), { code: 0, stdout: 'x', stderr: /gives back what you type/ })
  t.match(await run([]), { code: 127 })
})

t.test('a terminal is left by Ctrl-D and Ctrl-C', async (t) => {
  t.same(await run(['cat'], { tty: true, stdin: ['a\r', [0x62, 0x04, 0x63], 'never'] }), {
    code: 0,
    stdout: 'a\r\nb',
    stderr: '',
  })
  t.equal((await run(['cat'], { tty: true, stdin: [[0x03]] })).code, 130)
})

t.test('the status of an exit code', async (t) => {
  t.same(exitStatus(0), { metadata: {}, status: 'Success' })
  t.match(exitStatus(3), { reason: 'NonZeroExitCode', details: { causes: [{ reason: 'ExitCode', message: '3' }] } })
})
