import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { readTap } from '../../soak/tap-program.ts'

async function read(...lines: readonly string[]) {
  const said: string[] = []
  return { ...(await readTap(Readable.from(lines), (text) => said.push(text))), said }
}

t.test('what holds, what does not, and figures', async (t) => {
  const { told, failures, said } = await read(
    'TAP version 14',
    '# Subtest: ended',
    '    # token: 20 times',
    '    ok 1 - bob: watch goes on',
    '    not ok 2 - token, watch: after 9000 ms',
    '    1..2',
    'not ok 1 - ended # time=900ms',
    '1..1',
  )
  t.equal(told, 2)
  t.strictSame(failures, ['token, watch: after 9000 ms'])
  t.strictSame(said, ['token: 20 times', 'ok  bob: watch goes on', 'FAILED  token, watch: after 9000 ms'])
})

t.test('what is skipped inside of a scene does not hold', async (t) => {
  const { failures } = await read('    ok 1 - nginx # SKIP needs nginx', 'ok 1 - fronts # time=900ms')
  t.strictSame(failures, ['nginx # SKIP needs nginx'])
})

t.test('a scene that is skipped whole tells nothing, but why', async (t) => {
  const { told, failures, said } = await read('ok 1 - fronts # SKIP needs nginx', '1..1')
  t.equal(told, 0)
  t.strictSame(failures, [])
  t.strictSame(said, ['left out  fronts # SKIP needs nginx'])
})

t.test('a scene of which nothing was measured is not ok', async (t) => {
  const soak = join(import.meta.dirname, '../../soak/soak.ts')
  const { status, stdout } = spawnSync(process.execPath, [soak, 'ended'], {
    encoding: 'utf8',
    env: { ...process.env, KUBEBUILDER_ASSETS: '' },
  })
  t.match(stdout, /^left out {2}ended # SKIP needs .*kube-apiserver/m)
  t.match(stdout, /^ended: FAILED: nothing was measured$/m)
  t.equal(status, 1)
})
