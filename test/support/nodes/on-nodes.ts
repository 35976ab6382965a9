import { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { NodeCluster } from './node-cluster.ts'
import { nodePrograms } from './node-programs.ts'

export interface OnNodes {
  /** `import.meta.url` of the tests' file, which runs again inside */
  readonly file: string
  /** number of nodes, 1 to 9 */
  readonly nodes: number
  readonly timeoutMs: number
  /** variables of the file that runs inside, beside this process's own */
  readonly environment?: Readonly<Record<string, string>>
}

const program = process.env.KUBETEST_NODES ?? ''
const slowMachine = new URL('../../runner/slow-machine.ts', import.meta.url).href

export function whySkipped(): string | false {
  if (program === '') return 'needs KUBETEST_NODES'
  return process.getuid?.() === 0 ? false : 'needs root: real nodes have namespaces and cgroups of their own'
}

/**
 * Runs a test on a cluster with real nodes, which lives as long as the test. The cluster has a network and processes of
 * its own. The file runs a second time in there, so that its processes and Pods reach one another.
 */
export function onNodes(
  name: string,
  { file, nodes, timeoutMs, environment }: OnNodes,
  play: (t: Test, cluster: NodeCluster) => Promise<void>,
): void {
  const folder = process.env.KUBETEST_DIR
  const skip = folder === undefined && whySkipped()
  if (skip) {
    t.test(name, { skip }, () => undefined)
  } else if (folder === undefined) {
    const args = [String(nodes), process.execPath, '--import', slowMachine, fileURLToPath(file)]
    const env = { ...process.env, ...environment, KUBETEST_NODE_ASSETS: nodePrograms(program) }
    // its input ends with this process, however that ends
    t.spawn(program, args, { name, timeout: timeoutMs + startMs, stdio: ['pipe', 'pipe', 2], env })
  } else {
    endWithParent()
    t.test(name, { timeout: timeoutMs }, async (t) => {
      const cluster = await NodeCluster.open(folder)
      t.teardown(() => cluster.close())
      await play(t, cluster)
    })
  }
}

/** start time of nodes, on a busy machine */
const startMs = 30_000

/** Ends this process, and so the cluster, when its parent has ended. */
function endWithParent(): void {
  process.stdin.once('close', () => process.exit(1))
  process.stdin.resume()
  if (process.stdin instanceof Socket) process.stdin.unref()
}
