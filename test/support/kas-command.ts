import { runCli } from '../../src/kas/cli/cli.ts'

export interface KasAnswer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** `kas …` in this process. */
export async function runKas(argv: readonly string[], kubeconfig: string, stdin = ''): Promise<KasAnswer> {
  const said = { stdout: '', stderr: '' }
  const writer = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = {
    env: { KUBECONFIG: kubeconfig },
    stdout: writer('stdout'),
    stderr: writer('stderr'),
    stdin: (async function* () {
      yield stdin
    })(),
  }
  const code = await runCli(argv, io)
  return { code, ...said }
}
