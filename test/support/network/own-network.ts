import { spawnSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import type { Test } from 'tap'
import { absent } from '../absent.ts'

/** set for a process in a network of its own: the id of its parent's network, which must differ */
const outerVariable = 'KAS_TEST_OUTER_NETWORK'
const programs = ['unshare', 'ip', 'ss', 'mount', 'sh']

/** Nothing in these namespaces is visible outside, and they end with their last process, however that ends. */
const unshare = ['--net', '--mount', ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'])]

/** steps that a network needs, tried in namespaces of their own */
const trial = `
mount -t tmpfs tmpfs /run && ip link set lo up && ip netns add trial &&
ip link add trial-a type veth peer name trial-b netns trial && ip link add trial-c type bridge &&
ip -n trial rule add pref 10 ipproto tcp dport 8155 blackhole && ip netns exec trial true`

/**
 * Runs the test file a second time in a network and a mount namespace of its own, where it is root, and runs `body`
 * there. All changes stay in the namespaces, and end with them. Without the right to make namespaces the tests are
 * skipped.
 *
 * @param options.needs - names of missing programs, for which the tests are skipped too
 */
export function inOwnNetwork(
  t: Test,
  options: { file: string; name: string; needs: readonly string[]; timeoutMs: number },
  body: () => void,
): void {
  const { file, name, timeoutMs } = options
  if (process.env[outerVariable] !== undefined) {
    if (process.env[outerVariable] === networkOfThis()) throw new Error(`${outerVariable} is set, but nothing was made`)
    // ends with the process that waits for it, and with it the programs that it has started
    process.once('disconnect', () => process.exit(1))
    process.channel?.unref()
    body()
    return
  }
  const needs = [...options.needs, ...missing()]
  if (needs.length > 0) {
    void t.test(name, { skip: `needs ${needs.join(', ')}` }, async () => undefined)
    return
  }
  const args = [...unshare, process.execPath, ...process.execArgv, file]
  const env = { ...process.env, TAP_TIMEOUT: String(timeoutMs / 1000), [outerVariable]: networkOfThis() }
  void t.spawn('unshare', args, { env, timeout: timeoutMs }, name)
}

function networkOfThis(): string {
  return readlinkSync('/proc/self/ns/net')
}

function missing(): string[] {
  if (process.platform !== 'linux') return ['Linux']
  const without = programs.filter(absent)
  if (without.length > 0) return without
  const { status } = spawnSync('unshare', [...unshare, 'sh', '-c', trial], { stdio: 'ignore' })
  return status === 0 ? [] : ['the right to make network namespaces']
}
