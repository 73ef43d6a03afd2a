//! Classes of requests: tenants, models or urgencies. Policies see them, and results list each class.

use std::sync::Arc;

use crate::base::units::{Nanos, RequestId};

/// Requests with an objective of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub name: Arc<str>,
    /// The objective for the latency.
    pub slo: Option<Nanos>,
    /// The priority; a higher one is more urgent.
    pub priority: i32,
    /// The time after its arrival by which a request should end. Only policies drop late requests.
    pub deadline: Option<Nanos>,
}

impl Class {
    /// A class without an objective, a priority or a deadline.
    pub fn new(name: Arc<str>) -> Class {
        Class {
            name,
            slo: None,
            priority: 0,
            deadline: None,
        }
    }
}

/// The classes of a run, and the class of each request as its place in their list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    pub all: Vec<Class>,
    pub of: Vec<u16>,
}

impl Classes {
    pub fn class(&self, request: RequestId) -> &Class {
        &self.all[usize::from(self.of[request.index()])]
    }

    /// Finds each request's class by its name. If none are known, each name is a class.
    pub fn from_names(names: &[Arc<str>], known: Vec<Class>) -> Result<Classes, String> {
        let mut classes = Classes {
            all: known,
            of: Vec::with_capacity(names.len()),
        };
        let fixed = !classes.all.is_empty();
        for (request, name) in names.iter().enumerate() {
            let known = classes.all.iter().position(|class| class.name == *name);
            let place = known.unwrap_or(classes.all.len());
            if known.is_none() && fixed {
                let known: Vec<&str> = classes.all.iter().map(|class| &*class.name).collect();
                return Err(format!(
                    "request {request}: class \"{name}\" is not in the scenario; its [[class]] tables are {}",
                    known.join(", ")
                ));
            } else if known.is_none() {
                classes.all.push(Class::new(Arc::clone(name)));
            }
            let place = u16::try_from(place)
                .map_err(|_| format!("request {request}: more than 65,536 classes"))?;
            classes.of.push(place);
        }
        Ok(classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_become_classes() {
        let names: Vec<Arc<str>> = ["b", "a", "b"].map(Arc::from).into();
        let classes = Classes::from_names(&names, Vec::new()).unwrap();
        assert_eq!((classes.of, classes.all.len()), (vec![0, 1, 0], 2));
        let gold = Class {
            priority: 1,
            ..Class::new("a".into())
        };
        let known = vec![gold.clone(), Class::new("b".into())];
        assert_eq!(
            Classes::from_names(&names, known)
                .unwrap()
                .class(RequestId(1)),
            &gold
        );
        let error = Classes::from_names(&names, vec![gold]).unwrap_err();
        assert_eq!(
            error,
            "request 0: class \"b\" is not in the scenario; its [[class]] tables are a"
        );
    }
}
