import type { Logger, LogLevel } from '../../lib/log.ts'
import { type AgentConfiguration, log_level_enum } from '../../proto/gen/agentcfg_pb.ts'

const levels: Record<number, LogLevel> = {
  [log_level_enum.info]: 'info',
  [log_level_enum.debug]: 'debug',
  [log_level_enum.warn]: 'warn',
  [log_level_enum.error]: 'error',
}

/** Loggers of agentk and of its parts. The agent's configuration changes their level at run time. */
export class Loggers {
  readonly root: Logger
  readonly #all: Logger[]

  constructor(root: Logger) {
    this.root = root
    this.#all = [root]
  }

  of(part: string): Logger {
    const logger = this.root.child({ mod_name: part })
    this.#all.push(logger)
    return logger
  }

  /** Sets the level of all loggers. A configuration without a level changes nothing. */
  apply({ observability }: AgentConfiguration): void {
    const { logging } = observability ?? {}
    const level = logging && levels[logging.level]
    if (level) for (const logger of this.#all) logger.level = level
  }
}
