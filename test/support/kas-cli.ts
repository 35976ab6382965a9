import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { runCli } from '../../src/kas/cli/cli.ts'

export interface CliInput {
  /** text on stdin */
  readonly answer?: string
  readonly isTTY?: boolean
}

/** Starts a server that answers as `listener`, and returns a `kas` whose kubeconfig names it as kas. */
export async function startKasCli(t: Test, listener: RequestListener, { answer = '', isTTY = false }: CliInput = {}) {
  const server = createServer(listener)
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const kubeconfig = JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'x',
    clusters: [{ name: 'x', cluster: { server: `http://127.0.0.1:${port}/k8s-proxy/` } }],
    users: [{ name: 'x', user: { token: 'pat:42:secret' } }],
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
  })
  const file = join(t.testdir({ config: kubeconfig }), 'config')
  const printed = { out: '', err: '' }
  const keepIn = (name: 'out' | 'err') => ({
    write: (text: string) => {
      printed[name] += text
    },
  })
  const io = {
    env: { KUBECONFIG: file },
    stdout: keepIn('out'),
    stderr: keepIn('err'),
    stdin: Object.assign(Readable.from([answer]), { isTTY }),
  }
  return { printed, io, run: (...args: string[]) => runCli(args, io) }
}
