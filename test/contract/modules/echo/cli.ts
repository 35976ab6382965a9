import { askKas } from '../../../../src/kas/command/ask-kas.ts'
import { type Command, type ModuleCli, parsedArgs, required } from '../../../../src/kas/command/command.ts'
import { endpointOf } from '../../../../src/kas/command/endpoint.ts'

const usage = 'echo say WORD [--kubeconfig FILE]'
const options = { kubeconfig: { type: 'string' } } as const

const say: Command = {
  usage,
  options,
  async run(args, context) {
    const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
    const word = required(positionals[1], 'WORD')
    const answer = await askKas(await endpointOf(values, context), { method: 'GET', path: `/echo?word=${word}` })
    context.io.stdout.write(`${JSON.parse(answer).names.join()}\n`)
    return 0
  },
}

/** `kas echo say`: calls the module's endpoint on 8154. */
export const echoCli: ModuleCli = [
  {
    task: 'see',
    help: ['echo', 'say a word to all replicas'],
    commands: [{ words: 'echo say', load: async () => say }],
  },
]
