import { route } from './route.ts'
import { status } from './status.ts'
import type { StatusCommand } from './status-command.ts'

/** By the word after `kas`: these ask a running replica. */
export const statusCommands: Readonly<Record<'status' | 'route', StatusCommand>> = { status, route }
