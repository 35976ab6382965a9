import { runCli } from '../../src/kas/cli/cli.ts'
import { commandGroups } from '../../src/kas/cli/commands.ts'

export interface KasAnswer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs `kas …` in this process. @param groups - default: those of kas */
export async function runKas(
  argv: readonly string[],
  kubeconfig: string,
  stdin = '',
  groups = commandGroups,
): Promise<KasAnswer> {
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
  const code = await runCli(argv, io, groups)
  return { code, ...said }
}
