import { textOption } from '../command/command.ts'
import type { Command } from './directory-command.ts'

/** `kas kubeconfig` */
export const kubeconfig: Command = {
  usage:
    'kubeconfig (--agent NAME [--project PATH] [--context NAME] | --all) --server URL [--ca FILE] [--namespace NAME] (--user NAME [--token-name NAME] [--expires 90d|DATE|never] | --token-file FILE [--ci]) [--output FILE]',
  summary:
    'adds an agent, or all that the user may use, to a kubeconfig: FILE, else that of KUBECONFIG, else (and with -) stdout; others stay as they are. The token is the one of that name (default: of this host), or that in the file',
  options: {
    agent: { type: 'string' },
    all: { type: 'boolean' },
    project: { type: 'string' },
    context: { type: 'string' },
    server: { type: 'string' },
    ca: { type: 'string' },
    namespace: { type: 'string' },
    user: { type: 'string' },
    'token-name': { type: 'string' },
    expires: { type: 'string' },
    'token-file': { type: 'string' },
    ci: { type: 'boolean' },
    output: { type: 'string' },
  },
  positionals: 0,
  doesWithout: (values) => textOption(values, 'token-file') !== undefined,
  async run(context) {
    const { addToKubeconfig } = await import('./kubeconfig/add.ts') // for a help nothing is loaded
    return addToKubeconfig(context)
  },
}
