//! A policy from its sources: a document, options of the command line, or both.
//!
//! Options add to the document's rules and may turn enforcing into observing; they never narrow.
//! `--allow-private` speaks of the `--allow` rules alone: a document says for each entry what it opens.

use std::sync::Arc;

use ipnet::IpNet;

use crate::{
    allow_option::{self, ParseAllowError},
    compile::{self, Parts},
    compile_error::CompilePolicyError,
    index::Index,
    policy::{Policy, Settings},
    rule::Rule,
    secret_grant::Binding,
    verdict::{Mode, PolicyRef, Reach},
};

/// Collects what a policy is made of; [`PolicyBuilder::build`] makes it.
#[derive(Debug)]
pub struct PolicyBuilder {
    origin: String,
    name: Arc<str>,
    version: u64,
    settings: Settings,
    observe: bool,
    reach: Option<Reach>,
    rules: Vec<Rule>,
    options: Vec<Rule>,
    bindings: Vec<Binding>,
    allow_private: Vec<IpNet>,
}

impl PolicyBuilder {
    /// A policy that allows nothing yet. `name` is what records call it, unless a document has one.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            origin: "command line".to_owned(),
            name: name.into(),
            version: 0,
            settings: Settings::UNSTATED,
            observe: false,
            reach: None,
            rules: Vec::new(),
            options: Vec::new(),
            bindings: Vec::new(),
            allow_private: Vec::new(),
        }
    }

    /// Takes name, mode, limits and rules from a document; `origin` is its file name, for messages.
    ///
    /// # Errors
    /// [`CompilePolicyError`] with everything that is wrong with it.
    pub fn document(mut self, text: &str, origin: &str) -> Result<Self, CompilePolicyError> {
        let mut problems = Vec::new();
        let parts = compile::parts(text, &mut problems);
        let Some(Parts {
            name,
            settings,
            rules,
        }) = parts.filter(|_| problems.is_empty())
        else {
            return Err(CompilePolicyError::new(origin, problems));
        };
        origin.clone_into(&mut self.origin);
        if let Some(name) = name {
            self.name = name;
        }
        self.settings = settings;
        self.rules = rules;
        Ok(self)
    }

    /// Adds the rule of an `--allow` option: `HOST[:PORT]`, `*.example.com`, an address or a range,
    /// with `tcp:`, `tls:`, `http:` or `https:` before it where the protocol matters.
    ///
    /// # Errors
    /// [`ParseAllowError`], which says what to write.
    pub fn allow(mut self, option: &str) -> Result<Self, ParseAllowError> {
        self.options.push(allow_option::parse(option)?);
        Ok(self)
    }

    /// Lets a secret be swapped in towards a host that some rule allows.
    #[must_use]
    pub fn bind(mut self, binding: Binding) -> Self {
        self.bindings.push(binding);
        self
    }

    /// Lets the `--allow` rules reach an otherwise refused range.
    ///
    /// # Errors
    /// [`ParseAllowError`], when it is no range or touches what nothing may open.
    pub fn allow_private(mut self, option: &str) -> Result<Self, ParseAllowError> {
        self.allow_private
            .push(allow_option::parse_private(option)?);
        Ok(self)
    }

    /// Records what would be denied instead of denying it.
    #[must_use]
    pub const fn observe(mut self) -> Self {
        self.observe = true;
        self
    }

    /// Which side of the Internet's edge is reached.
    #[must_use]
    pub const fn reach(mut self, reach: Reach) -> Self {
        self.reach = Some(reach);
        self
    }

    /// The version that decisions carry; 0 for a policy that was never stored.
    #[must_use]
    pub const fn version(mut self, version: u64) -> Self {
        self.version = version;
        self
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// [`CompilePolicyError`], when two rules treat the same host's bytes on one port differently.
    pub fn build(self) -> Result<Policy, CompilePolicyError> {
        let private: Arc<[IpNet]> = self.allow_private.into();
        let mut rules = self.rules;
        rules.extend(self.options.into_iter().map(|rule| Rule {
            allow_private: Arc::clone(&private),
            ..rule
        }));
        let mut index = Index::default();
        let mut problems = Vec::new();
        for rule in &rules {
            if let Err(conflict) = index.add(rule) {
                problems.push(compile::problem_of_rule(rule, conflict.to_string()));
            }
        }
        if !problems.is_empty() {
            return Err(CompilePolicyError::new(&self.origin, problems));
        }
        let reference = PolicyRef {
            name: self.name,
            version: self.version,
        };
        let mut settings = self.settings;
        if self.observe {
            settings.mode = Mode::Observe;
        }
        settings.reach = self.reach.unwrap_or(settings.reach);
        Ok(Policy::assemble(
            reference,
            settings,
            (rules, Vec::new(), self.bindings),
            index,
        ))
    }
}

impl Policy {
    /// Compiles a document. `origin` is its file name: it stands in messages and, without directory
    /// and ending, is the policy's name where the document gives none.
    ///
    /// # Errors
    /// [`CompilePolicyError`] with every mistake, its line and column, and what to do.
    pub fn compile(text: &str, origin: &str) -> Result<Self, CompilePolicyError> {
        PolicyBuilder::new(stem(origin))
            .document(text, origin)?
            .build()
    }
}

fn stem(origin: &str) -> &str {
    let file = origin.rsplit('/').next().unwrap_or(origin);
    let stem = [".yaml", ".yml", ".json"]
        .iter()
        .find_map(|end| file.strip_suffix(end));
    stem.unwrap_or(file)
}
