import { agentCreate } from './agent.ts'
import type { Command } from './directory-command.ts'
import { kubeconfig } from './kubeconfig.ts'
import { agentList, agentShow, tokenList, tokenShow, userList, userShow } from './listing.ts'
import { agentDelete, agentRotate, tokenRotate, userDelete, userRotate } from './owners.ts'
import { tokenCreate, tokenDelete, tokenRevoke } from './token.ts'
import { userCreate } from './user.ts'

/** By the words after `kas`: these read or edit the directory file. */
export const commands: Readonly<Record<string, Command>> = {
  'agent create': agentCreate,
  'agent list': agentList,
  'agent show': agentShow,
  'agent delete': agentDelete,
  'agent rotate': agentRotate,
  'token create': tokenCreate,
  'token list': tokenList,
  'token show': tokenShow,
  'token delete': tokenDelete,
  'token revoke': tokenRevoke,
  'token rotate': tokenRotate,
  'user create': userCreate,
  'user list': userList,
  'user show': userShow,
  'user delete': userDelete,
  'user rotate': userRotate,
  kubeconfig,
}

/** Of each of `commands`. */
export const commonOptions = {
  directory: { type: 'string' },
  print: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const
